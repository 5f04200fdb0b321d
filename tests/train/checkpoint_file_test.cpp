// The container: what was written comes back, and nothing else does. Damage is planted everywhere; the judge is that a
// UserError names the file, never a crash and never wrong values.
#include "train/checkpoint_file.h"

#include <gmock/gmock.h>

#include <cstring>
#include <numeric>

#include "base/hash.h"
#include "support/scratch.h"

namespace cleave::checkpoint_file {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CheckpointFileTest : public testing::Test {
  protected:
    CheckpointFileTest() {
        std::iota(weights_.begin(), weights_.end(), 0.5f);
        writer_.add("weights", DType::f32, {5, 7}, weights_.data());
        writer_.add("nothing", DType::i64, {0, 3}, nullptr);
        writer_.add("step", DType::i64, {}, &step_);
        writer_.add("flags", DType::u8, {3}, flags_.data());
        writer_.write(path(), Json{{"step", 12}, {"note", "\xC3\xA9"}});
        bytes_ = read_all(path());
    }
    std::filesystem::path path() const { return folder_ / "a.ckpt"; }
    std::string refusal(const std::string& bytes) const {
        write_all(folder_ / "damaged.ckpt", bytes);
        return user_error([&] { CheckpointFile(folder_ / "damaged.ckpt"); });
    }
    // A file with this header text, correct in all that is outside it.
    static std::string with_header(std::string header, const std::string& data = "") {
        header.resize((header.size() + 24 + 63) / 64 * 64 - 24, ' ');
        const std::uint64_t numbers[2] = {header.size(), hash64(header)};
        std::string bytes = "CLEAVE01" + std::string(16, '\0') + header + data;
        std::memcpy(bytes.data() + 8, numbers, 16);
        return bytes;
    }
    // A header whose one tensor has these fields, and 64 bytes of data at byte 256.
    std::string tensor_refusal(const std::string& fields) const {
        const std::string header = R"({"metadata": {}, "tensors": [{)" + fields + "}]}";
        const std::string padded = header + std::string(232 - header.size(), ' ');
        return refusal(with_header(padded, std::string(64, 'x')));
    }

    ScratchFolder folder_;
    std::vector<float> weights_ = std::vector<float>(35);
    std::int64_t step_ = 12;
    std::vector<std::uint8_t> flags_ = {1, 2, 3};
    CheckpointWriter writer_;
    std::string bytes_;
};

TEST_F(CheckpointFileTest, GivesBackWhatWasWritten) {
    const CheckpointFile file(path());
    EXPECT_EQ(file.metadata().dump(), R"({"step": 12, "note": "é"})");
    ASSERT_EQ(file.tensors().size(), 4u);
    std::vector<float> weights(35);
    file.read("weights", DType::f32, {5, 7}, weights.data());
    EXPECT_EQ(weights, weights_);
    std::int64_t step = 0;
    file.read("step", DType::i64, {}, &step);
    EXPECT_EQ(step, 12);
    EXPECT_EQ(file.find("flags")->shape, Shape({3}));
    EXPECT_EQ(file.find("nothing")->bytes.size(), 0u);
    EXPECT_EQ(file.find("other"), nullptr);
    for (const auto& tensor : file.tensors()) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % 64, 0u);
}

TEST_F(CheckpointFileTest, GivesBackRangesOfTheGlobalIndex) {
    const CheckpointFile file(path());
    std::vector<float> part(9);
    file.read_range("weights", DType::f32, {5, 7}, 11, 9, part.data());
    EXPECT_EQ(part, std::vector<float>(weights_.begin() + 11, weights_.begin() + 20));
}

TEST_F(CheckpointFileTest, SaysWhatATensorIsInsteadOfReadingItWrongly) {
    const CheckpointFile file(path());
    std::vector<float> values(35);
    const auto read = [&](const char* name, DType dtype, const Shape& shape) {
        return user_error([&] { file.read(name, dtype, shape, values.data()); });
    };
    EXPECT_THAT(read("bias", DType::f32, {5, 7}), AllOf(HasSubstr("a.ckpt"), HasSubstr("no tensor 'bias'")));
    EXPECT_THAT(read("weights", DType::f32, {7, 5}), AllOf(HasSubstr("f32 [5, 7]"), HasSubstr("f32 [7, 5]")));
    EXPECT_THAT(read("weights", DType::f64, {5, 7}), HasSubstr("f64 [5, 7]"));
}

TEST_F(CheckpointFileTest, TruncationIsNoticedEverywhere) {
    for (std::size_t size = 0; size < bytes_.size(); size += size < 100 ? 1 : 97)
        EXPECT_THAT(refusal(bytes_.substr(0, size)), HasSubstr("damaged.ckpt")) << size << " bytes";
    EXPECT_THAT(refusal(bytes_.substr(0, bytes_.size() - 1)), HasSubstr("truncated"));
    EXPECT_THAT(refusal(bytes_ + "x"), HasSubstr("it has 1 byte after its last tensor"));
    EXPECT_EQ(refusal(bytes_), "");  // the judge accepts what is whole
}

TEST_F(CheckpointFileTest, EveryFlippedBitIsNoticed) {
    for (std::size_t i = 0; i < bytes_.size(); i += i < 32 ? 1 : 3) {
        std::string damaged = bytes_;
        damaged[i] = static_cast<char>(damaged[i] ^ (1 << i % 8));
        EXPECT_THAT(refusal(damaged), HasSubstr("damaged.ckpt")) << "byte " << i;
    }
}

TEST_F(CheckpointFileTest, RefusesAnotherVersionAndOtherFiles) {
    std::string later = bytes_;
    later[7] = '2';
    EXPECT_THAT(refusal(later), AllOf(HasSubstr("\"02\""), HasSubstr("version 01")));
    EXPECT_THAT(refusal("PK\x03\x04 something else entirely"), HasSubstr("another kind of file"));
    EXPECT_THAT(refusal(""), HasSubstr("empty"));
}

TEST_F(CheckpointFileTest, RefusesHostileHeaders) {
    std::string long_header = bytes_;
    std::memset(long_header.data() + 8, 0xFF, 8);
    EXPECT_THAT(refusal(long_header), HasSubstr("header should have 18446744073709551615 bytes"));
    EXPECT_THAT(refusal(with_header("{}")), HasSubstr("lacks"));
    EXPECT_THAT(refusal(with_header("[1")), HasSubstr("not valid JSON"));
    EXPECT_THAT(refusal(with_header(std::string(1000, '['))), HasSubstr("nested deeper"));
    EXPECT_THAT(refusal(with_header(R"({"metadata": {}, "tensors": 3})")), HasSubstr("lacks"));
    EXPECT_THAT(refusal(with_header(R"({"metadata": {}, "tensors": [3]})")), HasSubstr("no name"));
}

TEST_F(CheckpointFileTest, RefusesHostileTensors) {
    const std::string sum = fmt::format("\"xxh64\": \"{:016x}\"", hash64(std::string(64, 'x')));
    const auto fields = [&](const char* dtype, const char* shape, const char* begin, const char* end) {
        return fmt::format(R"("name": "w", "dtype": "{}", "shape": {}, "begin": {}, "end": {}, {})", dtype, shape,
                           begin, end, sum);
    };
    EXPECT_EQ(tensor_refusal(fields("f32", "[4, 4]", "256", "320")), "");  // the judge accepts the honest one
    EXPECT_THAT(tensor_refusal(fields("f16", "[4, 4]", "256", "320")), HasSubstr("dtype"));
    EXPECT_THAT(tensor_refusal(fields("f32", "[4, 5]", "256", "320")), HasSubstr("need 80"));
    EXPECT_THAT(tensor_refusal(fields("f32", "[-4, -4]", "256", "320")), HasSubstr("shape"));
    EXPECT_THAT(tensor_refusal(fields("f32", "[4294967296, 4294967296]", "256", "320")), HasSubstr("2^64"));
    EXPECT_THAT(tensor_refusal(fields("f32", "[1, 1, 1, 1, 1, 4, 4]", "256", "320")), HasSubstr("dims"));
    EXPECT_THAT(tensor_refusal(fields("f32", "[4, 4]", "0", "64")), HasSubstr("overlaps"));
    EXPECT_THAT(tensor_refusal(fields("f32", "[4, 4]", "257", "321")), HasSubstr("truncated"));
    EXPECT_THAT(tensor_refusal(fields("f32", "[4, 4]", "320", "256")), HasSubstr("bytes 320 to 256"));
    EXPECT_THAT(tensor_refusal(fields("f32", "[4, 4]", "256", "9223372036854775807")), HasSubstr("truncated"));
    EXPECT_THAT(tensor_refusal(fields("f32", "[4, 4]", "-64", "0")), HasSubstr("'begin'"));
    EXPECT_THAT(
        tensor_refusal(R"("name": "w", "dtype": "f32", "shape": [4, 4], "begin": 256, "end": 320, "xxh64": "0")"),
        HasSubstr("checksum"));
}

TEST_F(CheckpointFileTest, RefusesANameThatStandsTwice) {
    // Two empty tensors, both "w".
    const std::string one = R"({"name": "w", "dtype": "u8", "shape": [0], "begin": 256, "end": 256, "xxh64": ")" +
                            fmt::format("{:016x}", hash64(std::string_view())) + "\"}";
    std::string header = R"({"metadata": 0, "tensors": [)" + one + ", " + one + "]}";
    ASSERT_LE(header.size(), 232u);
    header.resize(232, ' ');
    EXPECT_THAT(refusal(with_header(header)), HasSubstr("'w' stands in it twice"));
}

TEST_F(CheckpointFileTest, AFailedWriteLeavesTheOldFile) {
    const auto folder = folder_ / "gone";
    EXPECT_THAT(user_error([&] { writer_.write(folder / "a.ckpt", Json::object()); }), HasSubstr("gone"));
    EXPECT_EQ(read_all(path()), bytes_);
}

TEST_F(CheckpointFileTest, LatestNamesTheMarkedCheckpoint) {
    EXPECT_EQ(latest_checkpoint(folder_.path()), std::nullopt);
    mark_latest(path());
    EXPECT_EQ(latest_checkpoint(folder_.path()), path());
    for (const char* hostile : {"", "\n", "../a.ckpt", "..", "missing.ckpt", "/etc/passwd"}) {
        write_all(folder_ / "latest", hostile);
        EXPECT_THAT(user_error([&] { latest_checkpoint(folder_.path()); }), HasSubstr("latest")) << hostile;
    }
}

}  // namespace
}  // namespace cleave::checkpoint_file
