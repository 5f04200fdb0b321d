// Token files, byte by byte as other trainers write them.
#include "train/token_file.h"

#include <gmock/gmock.h>

#include <cstring>

#include "support/scratch.h"
#include "train/dataset.h"
#include "train/megatron_index.h"
#include "train/sampler.h"
#include "train/token_writer.h"

namespace cleave {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

template <class T>
std::string bytes_of(std::initializer_list<T> values) {
    return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}
std::string u16(std::initializer_list<std::uint16_t> ids) {
    return bytes_of(ids);
}
std::string llmc(std::int32_t magic, std::int32_t version, std::int32_t count, const std::string& ids) {
    std::string header = bytes_of({magic, version, count});
    header.resize(1024);
    return header + ids;
}
std::string index_of(std::uint8_t code, std::initializer_list<std::int32_t> lengths,
                     std::initializer_list<std::int64_t> pointers, std::initializer_list<std::int64_t> documents) {
    return std::string("MMIDIDX\0\0", 9) + bytes_of({std::uint64_t{1}}) + static_cast<char>(code) +
           bytes_of({std::uint64_t{lengths.size()}, std::uint64_t{documents.size()}}) + bytes_of(lengths) +
           bytes_of(pointers) + bytes_of(documents);
}

class TokenFileTest : public testing::Test {
  protected:
    std::filesystem::path file(const std::string& name, const std::string& bytes) const {
        write_all(folder_ / name, bytes);
        return folder_ / name;
    }
    std::string refusal(const std::string& name, const std::string& bytes) const {
        return user_error([&] { TokenFile(file(name, bytes)); });
    }
    std::string index_refusal(const std::string& index) const {
        file("m.bin", u16({1, 2, 3, 4, 5, 6}));
        return refusal("m.idx", index);
    }
    Job::Data data(const std::string& name) const {
        Job::Data data;
        data.path = (folder_ / name).string();
        data.train_fraction = 0.5;
        return data;
    }
    ScratchFolder folder_;
};

TEST_F(TokenFileTest, ReadsNanoGpt) {
    const TokenFile tokens(file("train.bin", u16({0, 50256, 65535})));
    EXPECT_THAT(tokens.tokens().copy(), ElementsAre(0, 50256, 65535));
    EXPECT_THAT(tokens.document_starts(), IsEmpty());
    EXPECT_THAT(refusal("a.bin", "abc"), AllOf(HasSubstr("a.bin"), HasSubstr("3 bytes")));
    EXPECT_THAT(refusal("a.bin", ""), HasSubstr("no tokens"));
}

TEST_F(TokenFileTest, ReadsLlmc) {
    const TokenFile gpt2(file("a.bin", llmc(20240520, 1, 3, u16({7, 8, 50256}))));
    EXPECT_THAT(gpt2.tokens().copy(), ElementsAre(7, 8, 50256));
    const TokenFile llama(file("b.bin", llmc(20240801, 7, 2, bytes_of<std::uint32_t>({9, 128000}))));
    EXPECT_THAT(llama.tokens().copy(), ElementsAre(9, 128000));
    EXPECT_THAT(refusal("c.bin", llmc(20240520, 2, 1, u16({7}))), HasSubstr("version is 2; accepted: 1"));
    EXPECT_THAT(refusal("c.bin", llmc(20240520, 1, 4, u16({7}))), HasSubstr("4 ids of 2 bytes, 2 bytes follow"));
    EXPECT_THAT(refusal("c.bin", llmc(20240520, 1, -1, u16({7}))), HasSubstr("truncated or altered"));
    EXPECT_THAT(refusal("c.bin", llmc(20240520, 1, 0, "").substr(0, 900)), HasSubstr("inside the header"));
}

TEST_F(TokenFileTest, ReadsMegatronWithItsDocuments) {
    file("m.bin", u16({1, 2, 3, 4, 5, 6}));
    // Sequences of 2, 1, 0 and 3 tokens; the first two are one document, the third is an empty one.
    file("m.idx", index_of(8, {2, 1, 0, 3}, {0, 4, 6, 6}, {0, 2, 3, 4}));
    for (const char* name : {"m.bin", "m.idx"}) {
        const TokenFile tokens(folder_ / name);
        EXPECT_THAT(tokens.tokens().copy(), ElementsAre(1, 2, 3, 4, 5, 6));
        EXPECT_THAT(tokens.document_starts(), ElementsAre(0, 3));
    }
    file("w.bin", bytes_of<std::int32_t>({100000, 2}));
    file("w.idx", index_of(4, {2}, {0}, {0, 1}));
    EXPECT_THAT(TokenFile(folder_ / "w.idx").tokens().copy(), ElementsAre(100000, 2));
}

TEST_F(TokenFileTest, RefusesHostileMegatronIndices) {
    EXPECT_EQ(index_refusal(index_of(8, {6}, {0}, {0, 1})), "");  // the judge accepts the honest one
    EXPECT_THAT(index_refusal("MMIDIDX"), HasSubstr("header"));
    EXPECT_THAT(index_refusal(index_of(7, {6}, {0}, {0, 1})), HasSubstr("float32"));
    EXPECT_THAT(index_refusal(index_of(77, {6}, {0}, {0, 1})), HasSubstr("code is 77"));
    EXPECT_THAT(index_refusal(index_of(8, {5}, {0}, {0, 1})), HasSubstr("its .bin has 12 bytes"));
    EXPECT_THAT(index_refusal(index_of(8, {7}, {0}, {0, 1})), HasSubstr("its .bin has 12 bytes"));
    EXPECT_THAT(index_refusal(index_of(8, {-1, 7}, {0, 0}, {0, 2})), HasSubstr("sequence 0 has -1"));
    EXPECT_THAT(index_refusal(index_of(8, {3, 3}, {6, 0}, {0, 2})), HasSubstr("sequence 0 begins at byte 6"));
    EXPECT_THAT(index_refusal(index_of(8, {6}, {0}, {0, 2})), HasSubstr("document index 1 is 2"));
    EXPECT_THAT(index_refusal(index_of(8, {3, 3}, {0, 6}, {0, 2, 1, 2})), HasSubstr("document index 2 is 1"));
    EXPECT_THAT(index_refusal(index_of(8, {3, 3}, {0, 6}, {0, 1})), HasSubstr("last document index is 1"));
    EXPECT_THAT(index_refusal(index_of(8, {6}, {0}, {-1, 1})), HasSubstr("document index 0"));
    std::string huge = index_of(8, {6}, {0}, {0, 1});
    for (const std::uint64_t count : {~std::uint64_t{0}, std::uint64_t{1} << 62, std::uint64_t{1} << 60}) {
        std::memcpy(huge.data() + 18, &count, sizeof(count));
        EXPECT_THAT(index_refusal(huge), HasSubstr("truncated or altered"));
    }
}

TEST_F(TokenFileTest, AContainerThatIsDamagedAnywhereIsNotTakenForRawIds) {
    const auto bytes = Tokenizer::bytes();
    write_token_file(folder_ / "c.bin", TokenFormat::cleave, bytes.encode("abcabc", "text"), bytes, 0);
    const std::string whole = read_all(folder_ / "c.bin");
    ASSERT_EQ(whole.size() % 2, 0u) << "else its size alone refuses it";
    for (std::size_t at = 0; at < whole.size(); ++at) {
        std::string damaged = whole;
        damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
        EXPECT_NE(refusal("d.bin", damaged), "") << "byte " << at;
    }
    EXPECT_THAT(refusal("d.bin", std::string(64, '\0') + whole.substr(64)), HasSubstr("damaged"));
}

TEST_F(TokenFileTest, AnIndexBesideAFileOfOurOwnIsRefused) {
    const auto bytes = Tokenizer::bytes();
    write_token_file(folder_ / "c.bin", TokenFormat::cleave, bytes.encode("abcabc", "text"), bytes, 0);
    const auto size = static_cast<std::int32_t>(std::filesystem::file_size(folder_ / "c.bin") / 2);
    file("c.idx", index_of(8, {size}, {0}, {0, 1}));
    EXPECT_THAT(user_error([&] { TokenFile(folder_ / "c.bin"); }), AllOf(HasSubstr("c.idx"), HasSubstr("remove")));
}

TEST_F(TokenFileTest, TheFormatIsSaid) {
    const auto said = [&](const char* name) {
        testing::internal::CaptureStderr();
        Dataset::open(data(name), std::nullopt, 100);
        return testing::internal::GetCapturedStderr();
    };
    file("a.bin", u16({0, 1, 9, 3}));
    EXPECT_THAT(said("a.bin"), AllOf(HasSubstr("a.bin"), HasSubstr("4 tokens"), HasSubstr("16-bit ids alone")));
    file("a.idx", index_of(8, {4}, {0}, {0, 1}));
    EXPECT_THAT(said("a.bin"), AllOf(HasSubstr("Megatron-LM"), HasSubstr("a.idx")));
    file("b.bin", llmc(20240520, 1, 3, u16({7, 8, 50})));
    EXPECT_THAT(said("b.bin"), HasSubstr("llm.c"));
    const auto bytes = Tokenizer::characters("ab", "text");
    write_token_file(folder_ / "c.bin", TokenFormat::cleave, bytes.encode("abab", "text"), bytes, 0);
    EXPECT_THAT(said("c.bin"), HasSubstr("Cleave's own"));
}

TEST_F(TokenFileTest, ACacheThatCannotBeWrittenStopsNoRun) {
    Job::Data text = data("t.txt");
    file("t.txt", "abcabcab");
    testing::internal::CaptureStderr();
    const Dataset dataset = Dataset::open(text, folder_ / "nowhere" / "tokens.bin");
    EXPECT_THAT(testing::internal::GetCapturedStderr(), AllOf(HasSubstr("warning"), HasSubstr("tokens.bin"),
                                                              HasSubstr("only a cache"), HasSubstr("in memory")));
    EXPECT_THAT(dataset.tokens(Part::train).copy(), ElementsAre(0, 1, 2, 0));
    EXPECT_THAT(dataset.tokens(Part::validation).copy(), ElementsAre(1, 2, 0, 1));
}

TEST_F(TokenFileTest, ChecksIdsAgainstTheVocabulary) {
    file("a.bin", u16({0, 1, 9, 3, 4, 5, 6, 7}));
    EXPECT_THAT(user_error([&] { Dataset::open(data("a.bin"), std::nullopt); }),
                AllOf(HasSubstr("model.vocabulary"), HasSubstr("data.tokenizer_file")));
    EXPECT_THAT(user_error([&] { Dataset::open(data("a.bin"), std::nullopt, 9); }),
                AllOf(HasSubstr("token 2 of it is 9"), HasSubstr("0 to 8"), HasSubstr("model.vocabulary")));
    const Dataset dataset = Dataset::open(data("a.bin"), std::nullopt, 10);
    EXPECT_EQ(dataset.tokenizer().vocabulary(), 10);
    EXPECT_THAT(dataset.tokens(Part::validation).copy(), ElementsAre(4, 5, 6, 7));
    EXPECT_EQ(dataset.tokenizer().decode(std::vector<Token>{3, 9}), "3 9 ");
    // From 2^31 on.
    file("n.bin", llmc(20240801, 7, 1, bytes_of<std::uint32_t>({0x80000000u})));
    EXPECT_THAT(user_error([&] { Dataset::open(data("n.bin"), std::nullopt, 1 << 26); }), HasSubstr("2147483648"));
}

TEST_F(TokenFileTest, DocumentsAreCutWithTheParts) {
    file("m.bin", u16({1, 2, 3, 4, 5, 6, 7, 8}));
    file("m.idx", index_of(8, {2, 3, 2, 1}, {0, 4, 10, 14}, {0, 1, 2, 3, 4}));
    const Dataset dataset = Dataset::open(data("m.idx"), std::nullopt, 10);
    EXPECT_THAT(dataset.document_starts(Part::train), ElementsAre(0, 2));
    EXPECT_THAT(dataset.document_starts(Part::validation), ElementsAre(0, 1, 3));  // 5 | 6 7 | 8
}

TEST_F(TokenFileTest, SamplesOfATokenFileAreThoseOfTheSameTokensInMemory) {
    const std::string text = "some bytes to learn from, and more of them";
    Job::Data bytes = data("t.txt");
    bytes.tokenizer = TokenizerKind::bytes;
    const Dataset memory = Dataset::from_text(text, bytes);
    const auto tokens = Tokenizer::bytes().encode(text, "text");
    for (TokenFormat format : {TokenFormat::cleave, TokenFormat::bin, TokenFormat::megatron}) {
        write_token_file(folder_ / "t.bin", format, tokens, Tokenizer::bytes(), 0);
        bytes.path = (folder_ / "t.bin").string();
        const Dataset mapped = Dataset::open(bytes, std::nullopt);
        Samples a;
        Samples b;
        Sampler(memory, 5, 1).training(3, {0, 4}, a);
        Sampler(mapped, 5, 1).training(3, {0, 4}, b);
        EXPECT_EQ(a.tokens, b.tokens);
        EXPECT_EQ(a.labels, b.labels);
    }
}

TEST_F(TokenFileTest, OurContainerKnowsItsTokenizer) {
    const auto letters = Tokenizer::characters("abc", "text");
    write_token_file(folder_ / "c.bin", TokenFormat::cleave, letters.encode("abcabc", "text"), letters, 0);
    EXPECT_EQ(Dataset::open(data("c.bin"), std::nullopt).tokenizer(), letters);
    Job::Data bytes = data("c.bin");
    bytes.tokenizer = TokenizerKind::bytes;
    EXPECT_THAT(user_error([&] { Dataset::open(bytes, std::nullopt); }), HasSubstr("made with another tokenizer"));
    const auto bpe = Tokenizer::bpe(read_bpe(std::filesystem::path(CLEAVE_GOLDEN) / "tokenizers/llama3.json"));
    write_token_file(folder_ / "b.bin", TokenFormat::cleave, bpe.encode("the end", "text"), bpe, 0);
    EXPECT_THAT(user_error([&] { Dataset::open(data("b.bin"), std::nullopt); }), HasSubstr("data.tokenizer_file"));
    Job::Data with_file = data("b.bin");
    with_file.tokenizer = TokenizerKind::bpe;
    with_file.tokenizer_file = std::string(CLEAVE_GOLDEN) + "/tokenizers/llama3.json";
    EXPECT_EQ(Dataset::open(with_file, std::nullopt).tokenizer(), bpe);
    with_file.tokenizer_file = std::string(CLEAVE_GOLDEN) + "/tokenizers/gpt2.json";
    EXPECT_THAT(user_error([&] { Dataset::open(with_file, std::nullopt); }), HasSubstr("another tokenizer"));
}

TEST_F(TokenFileTest, LargeVocabulariesAreWrittenWithWiderIds) {
    const std::vector<Token> tokens = {1, 70000};
    const auto wide = Tokenizer::ids(70001);
    for (TokenFormat format : {TokenFormat::cleave, TokenFormat::bin, TokenFormat::megatron}) {
        std::filesystem::remove(folder_ / "w.idx");
        write_token_file(folder_ / "w.bin", format, tokens, wide, 0);
        EXPECT_EQ(TokenFile(folder_ / "w.bin").tokens().copy(), tokens);
    }
}

TEST_F(TokenFileTest, TheTokenizersFileIsNamedWhereItIsNeededAndOnlyThere) {
    Job::Data data;
    data.tokenizer = TokenizerKind::bpe;
    EXPECT_THAT(data_problems(data), testing::Contains(HasSubstr("data.tokenizer_file: no file is named")));
    data.tokenizer = TokenizerKind::bytes;
    data.tokenizer_file = "t.json";
    EXPECT_THAT(data_problems(data), testing::Contains(HasSubstr("data.tokenizer_file: found 't.json'")));
}

}  // namespace
}  // namespace cleave
