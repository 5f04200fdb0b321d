#include "train/dataset.h"

#include <gmock/gmock.h>

#include "support/scratch.h"

namespace cleave {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class DatasetTest : public testing::Test {
  protected:
    Job::Data data() const {
        Job::Data data;
        data.path = (folder_ / "text.txt").string();
        return data;
    }
    std::string text_of(const Dataset& dataset) const {
        return dataset.tokenizer().decode(dataset.tokens(Part::train).copy()) +
               dataset.tokenizer().decode(dataset.tokens(Part::validation).copy());
    }
    std::string refusal() const {
        return user_error([&] { Dataset::open(data(), folder_ / "tokens"); });
    }
    ScratchFolder folder_;
};

TEST_F(DatasetTest, TrainingTakesTheFirstPart) {
    write_all(data().path, "0123456789");
    const Dataset dataset = Dataset::open(data(), folder_ / "tokens");
    EXPECT_EQ(dataset.tokens(Part::train).size(), 9u);
    EXPECT_EQ(dataset.tokenizer().decode(dataset.tokens(Part::validation).copy()), "9");
}

TEST_F(DatasetTest, MappedTokensEqualThoseInMemory) {
    write_all(data().path, "some text, \xC3\xA9 and all");
    for (TokenizerKind kind : {TokenizerKind::characters, TokenizerKind::bytes}) {
        Job::Data options = data();
        options.tokenizer = kind;
        const Dataset memory = Dataset::open(options, std::nullopt);
        const Dataset mapped = Dataset::open(options, folder_ / "tokens");
        EXPECT_EQ(text_of(memory), read_all(data().path));
        EXPECT_EQ(text_of(mapped), read_all(data().path));
        EXPECT_EQ(mapped.text_hash(), memory.text_hash());
    }
}

TEST_F(DatasetTest, TheTokenFileIsKeptWhileTheTextIsTheSame) {
    write_all(data().path, "abcabc");
    Dataset::open(data(), folder_ / "tokens");
    const auto written = std::filesystem::last_write_time(folder_ / "tokens");
    std::filesystem::last_write_time(folder_ / "tokens", written - std::chrono::hours(1));
    Dataset::open(data(), folder_ / "tokens");
    EXPECT_EQ(std::filesystem::last_write_time(folder_ / "tokens"), written - std::chrono::hours(1));
}

TEST_F(DatasetTest, AnotherTextOfTheSameLengthIsNoticed) {
    write_all(data().path, "abcabc");
    Dataset::open(data(), folder_ / "tokens");
    write_all(data().path, "abccba");
    EXPECT_EQ(text_of(Dataset::open(data(), folder_ / "tokens")), "abccba");
}

TEST_F(DatasetTest, ADamagedTokenFileIsWrittenAgain) {
    write_all(data().path, "abcabc");
    Dataset::open(data(), folder_ / "tokens");
    std::string bytes = read_all(folder_ / "tokens");
    bytes[bytes.size() - 3] ^= 1;
    write_all(folder_ / "tokens", bytes);
    EXPECT_EQ(text_of(Dataset::open(data(), folder_ / "tokens")), "abcabc");
    EXPECT_NE(read_all(folder_ / "tokens"), bytes);
}

TEST_F(DatasetTest, SaysWhatIsWrongWithTheText) {
    EXPECT_THAT(refusal(), AllOf(HasSubstr("data.path"), HasSubstr("no file"), HasSubstr("text.txt")));
    write_all(data().path, "");
    EXPECT_THAT(refusal(), AllOf(HasSubstr("text.txt"), HasSubstr("empty")));
    std::filesystem::remove(data().path);
    std::filesystem::create_directory(data().path);
    EXPECT_THAT(refusal(), HasSubstr("folder"));
    EXPECT_THAT(user_error([] { Dataset::open({}, std::nullopt); }), HasSubstr("--set data.path=FILE"));
}

TEST_F(DatasetTest, BrokenUtf8IsRefusedAndBytesAccepted) {
    write_all(data().path, "ab\xFF");
    EXPECT_THAT(refusal(), HasSubstr("not UTF-8"));
    Job::Data bytes = data();
    bytes.tokenizer = TokenizerKind::bytes;
    EXPECT_EQ(text_of(Dataset::open(bytes, std::nullopt)), "ab\xFF");
}

}  // namespace
}  // namespace cleave
