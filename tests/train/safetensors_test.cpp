// Files of named tensors: what was written comes back, what a foreign writer wrote is read, and damage is a UserError
// that says what is wrong, never a crash and never wrong values.
#include "train/safetensors.h"

#include <gmock/gmock.h>

#include <cstring>
#include <numeric>

#include "support/scratch.h"

namespace cleave {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class SafetensorsTest : public testing::Test {
  protected:
    std::filesystem::path path() const { return folder_ / "model.safetensors"; }
    // A file with this header and data.
    static std::string file(const std::string& header, const std::string& data = "") {
        std::string bytes(8, '\0');
        const std::uint64_t length = header.size();
        std::memcpy(bytes.data(), &length, 8);
        return bytes + header + data;
    }
    std::string refusal(const std::string& bytes) const {
        write_all(path(), bytes);
        return user_error([&] { SafetensorsFile{path()}; });
    }
    // A header with one tensor "w" of these fields, and 16 bytes of data.
    std::string tensor_refusal(const std::string& fields) const {
        return refusal(file(R"({"w": {)" + fields + "}}", std::string(16, 'x')));
    }

    ScratchFolder folder_;
};

TEST_F(SafetensorsTest, GivesBackWhatWasWritten) {
    std::vector<float> values(35);
    std::iota(values.begin(), values.end(), 0.5F);
    const double one = 1.0 / 3;
    SafetensorsWriter writer;
    writer.add("w", {5, 7}, DType::f32, values.data(), DType::f32);
    writer.add("half", {35}, DType::f32, values.data(), DType::bf16);
    writer.add("nothing", {0, 3}, DType::f32, nullptr, DType::f32);
    writer.add("scalar", {}, DType::f64, &one, DType::f32);
    writer.write(path());

    const SafetensorsFile read(path());
    ASSERT_EQ(read.tensors().size(), 4U);
    const auto& tensors = read.tensors();
    EXPECT_EQ(tensors[0].name, "w");
    EXPECT_EQ(tensors[0].shape, (Shape{5, 7}));
    EXPECT_EQ(std::memcmp(tensors[0].bytes.data(), values.data(), 140), 0);
    EXPECT_EQ(tensors[1].type.name, "BF16");
    for (std::size_t i = 0; i < 35; ++i) {  // these are exact in bf16: its upper half
        std::uint16_t upper;
        std::memcpy(&upper, tensors[1].bytes.data() + 2 * i, 2);
        EXPECT_EQ(static_cast<std::uint32_t>(upper) << 16, std::bit_cast<std::uint32_t>(values[i]));
    }
    float scalar;
    std::memcpy(&scalar, tensors.back().bytes.data(), 4);
    EXPECT_EQ(scalar, 1.0F / 3);
}

// The bytes themselves, as the format's text has them.
TEST_F(SafetensorsTest, TheFileIsWhatTheFormatAsksFor) {
    const float value = 2;
    SafetensorsWriter writer;
    writer.add("w", {1}, DType::f32, &value, DType::f32);
    writer.write(path());
    const std::string bytes = read_all(path());
    std::uint64_t length;
    std::memcpy(&length, bytes.data(), 8);
    EXPECT_EQ(length % 8, 0U);
    ASSERT_EQ(bytes.size(), 8 + length + 4);
    EXPECT_THAT(bytes.substr(8, length),
                AllOf(testing::StartsWith(R"({"__metadata__": {"format": "pt"})"),
                      HasSubstr(R"("w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]})")));
}

TEST_F(SafetensorsTest, BlocksOfAConversionMeetWithoutSeam) {
    std::vector<float> values((1 << 20) + 77);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 251);
    SafetensorsWriter writer;
    writer.add("w", {static_cast<std::int64_t>(values.size())}, DType::f32, values.data(), DType::bf16);
    writer.write(path());
    const SafetensorsFile read(path());
    std::vector<float> again(values.size());
    convert_values(read.tensors()[0].type, read.tensors()[0].bytes, DType::f32, again.data());
    EXPECT_EQ(values, again);
}

TEST_F(SafetensorsTest, EveryCutOfAFileIsRefused) {
    const std::string whole =
        file(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})", std::string(8, 'x'));
    EXPECT_THAT(refusal(whole), IsEmpty());
    for (std::size_t length = 0; length < whole.size(); ++length)
        EXPECT_THAT(refusal(whole.substr(0, length)), HasSubstr(path().string())) << length;
    EXPECT_THAT(refusal(whole + "x"), HasSubstr("it has 1 byte after its last tensor"));
}

TEST_F(SafetensorsTest, HostileHeadersAreRefused) {
    EXPECT_THAT(refusal(std::string(8, '\xff') + "{}"), HasSubstr("at most 100000000"));
    EXPECT_THAT(refusal(file("[]")), HasSubstr("no JSON object"));
    EXPECT_THAT(refusal(file("{")), HasSubstr("not valid JSON"));
    EXPECT_THAT(refusal(file(R"({"a": 1, "a": 2})")), HasSubstr("twice"));
    EXPECT_THAT(refusal(file(R"({"a": 1})")), HasSubstr("'a'"));

    EXPECT_THAT(tensor_refusal(R"("dtype": "F33", "shape": [4], "data_offsets": [0, 16])"), HasSubstr("\"F33\""));
    EXPECT_THAT(tensor_refusal(R"("shape": [4], "data_offsets": [0, 16])"), HasSubstr("(none)"));
    EXPECT_THAT(tensor_refusal(R"("dtype": "F32", "shape": [-4], "data_offsets": [0, 16])"), HasSubstr("[-4]"));
    EXPECT_THAT(tensor_refusal(R"("dtype": "F32", "shape": [1, 1, 1, 1, 1, 1, 4], "data_offsets": [0, 16])"),
                HasSubstr("at most 6 dims"));
    EXPECT_THAT(tensor_refusal(R"("dtype": "F32", "shape": [5], "data_offsets": [0, 16])"), HasSubstr("need 20"));
    EXPECT_THAT(tensor_refusal(R"("dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 16])"),
                HasSubstr("2^64"));
    EXPECT_THAT(tensor_refusal(R"("dtype": "F32", "shape": [4], "data_offsets": [16, 0])"), HasSubstr("bytes 16 to 0"));
    EXPECT_THAT(tensor_refusal(R"("dtype": "F32", "shape": [4], "data_offsets": [0, 9223372036854775807])"),
                HasSubstr("truncated"));
    EXPECT_THAT(tensor_refusal(R"("dtype": "F32", "shape": [4], "data_offsets": [0])"), HasSubstr("data_offsets"));
    EXPECT_THAT(tensor_refusal(R"("dtype": "F32", "shape": [3], "data_offsets": [0, 12])"),
                HasSubstr("it has 4 bytes after its last tensor"));
}

TEST_F(SafetensorsTest, HolesAndOverlapsAreRefused) {
    const auto two = [](int begin) {
        return fmt::format(R"({{"b": {{"dtype": "U8", "shape": [4], "data_offsets": [{}, {}]}},
                            "a": {{"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}}})",
                           begin, begin + 4);
    };
    EXPECT_THAT(refusal(file(two(4), "12345678")), IsEmpty());
    EXPECT_THAT(refusal(file(two(5), "123456789")), HasSubstr("'b' begins at byte 5 of the data, where 4 ends"));
    EXPECT_THAT(refusal(file(two(3), "1234567")), HasSubstr("hole or an overlap"));
}

class ShardsTest : public SafetensorsTest {
  protected:
    ShardsTest() {
        write_all(folder_ / "1.safetensors",
                  file(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}})", "1"));
        write_all(folder_ / "2.safetensors",
                  file(R"({"b": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}})", "2"));
    }
    std::string refusal_of(const std::string& index) const {
        write_all(folder_ / "model.safetensors.index.json", index);
        return user_error([&] { SafetensorsFolder{folder_.path()}; });
    }
};

TEST_F(ShardsTest, TheIndexGathersThem) {
    ASSERT_THAT(refusal_of(R"({"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}})"), IsEmpty());
    const SafetensorsFolder folder(folder_.path());
    EXPECT_EQ(folder.tensors().size(), 2U);
    ASSERT_NE(folder.find("b"), nullptr);
    EXPECT_EQ(folder.find("b")->bytes[0], std::byte{'2'});
    EXPECT_EQ(folder.find("c"), nullptr);
}

TEST_F(ShardsTest, AWrongIndexIsRefused) {
    EXPECT_THAT(refusal_of("{}"), HasSubstr("no 'weight_map'"));
    for (const char* name : {"../1.safetensors", "/etc/passwd", "..", "", "x/1.safetensors"})
        EXPECT_THAT(refusal_of(fmt::format(R"({{"weight_map": {{"a": "{}"}}}})", name)), HasSubstr("same folder"))
            << name;
    EXPECT_THAT(refusal_of(R"({"weight_map": {"a": 3}})"), HasSubstr("same folder"));
    EXPECT_THAT(refusal_of(R"({"weight_map": {"a": "3.safetensors"}})"), HasSubstr("3.safetensors"));
    EXPECT_THAT(refusal_of(R"({"weight_map": {"a": "1.safetensors", "c": "2.safetensors"}})"),
                HasSubstr("does not say that 'b' is in 2.safetensors"));
    EXPECT_THAT(refusal_of(R"({"weight_map": {"a": "1.safetensors", "b": "2.safetensors", "c": "2.safetensors"}})"),
                HasSubstr("does not hold 'c'"));
}

TEST_F(SafetensorsTest, AFolderWithoutWeightsSaysWhatWasLookedFor) {
    EXPECT_THAT(user_error([&] { SafetensorsFolder{folder_.path()}; }),
                AllOf(HasSubstr("model.safetensors"), HasSubstr("model.safetensors.index.json")));
    write_all(folder_ / "pytorch_model.bin", "x");
    EXPECT_THAT(user_error([&] { SafetensorsFolder{folder_.path()}; }), HasSubstr("save_pretrained"));
}

}  // namespace
}  // namespace cleave
