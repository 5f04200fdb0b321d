// Which labels count and how far a token sees, judged against ids that are their own positions: what a sample should be
// follows from its tokens.
#include <gmock/gmock.h>

#include <algorithm>

#include "base/random.h"
#include "support/scratch.h"
#include "train/documents.h"
#include "train/job_check.h"
#include "train/megatron_index.h"
#include "train/sampler.h"

namespace cleave {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kTokens = 400;
constexpr std::int64_t kCut = 200;  // the train part's size
constexpr std::int64_t kLabelContext = 12;

class LabelsTest : public testing::Test {
  protected:
    LabelsTest() {
        std::string ids;
        for (std::int64_t i = 0; i < kTokens; ++i) {
            ids += static_cast<char>(i & 0xFF);
            ids += static_cast<char>(i >> 8);
        }
        write_all(folder_ / "m.bin", ids);
        // Of 1 token, shorter and longer than a row, and one over the cut between the parts.
        const RandomStream random(3, "lengths");
        for (std::int64_t at = 0, n = 0; at < kTokens; ++n) {
            starts_.push_back(at);
            at += n % 4 == 0 ? 1 : static_cast<std::int64_t>(2 + random.below(static_cast<std::uint64_t>(n), 30));
        }
        EXPECT_FALSE(begins_document(kCut));
        write_all(folder_ / "m.idx", megatron_index(starts_, kTokens, 2));
        for (std::int64_t i = 0; i < kTokens; ++i)
            mask_ += static_cast<char>(random.uniform(static_cast<std::uint64_t>(1000 + i)) < 0.6 ? 1 : 0);
        write_all(folder_ / "mask", mask_);
    }

    Job::Data data(bool documents, bool mask) const {
        Job::Data data;
        data.path = (folder_ / "m.idx").string();
        data.train_fraction = 0.5;
        data.separate_documents = documents;
        if (mask) data.mask = (folder_ / "mask").string();
        return data;
    }
    static Dataset open(const Job::Data& data) { return Dataset::open(data, std::nullopt, kTokens); }
    std::string refusal(const Job::Data& data) const {
        return user_error([&] { Dataset::open(data, folder_ / "tokens", kTokens); });
    }
    bool begins_document(std::int64_t at) const { return std::binary_search(starts_.begin(), starts_.end(), at); }

    // What a row that begins with the token `start` should be.
    void expect_row(const Samples& samples, std::size_t row, std::int64_t start, Part part, const Job::Data& d) const {
        const std::int64_t end = part == Part::train ? kCut : kTokens;
        std::int64_t first = start;
        for (std::int64_t i = start; i < start + kLabelContext; ++i) {
            const std::size_t at = row * kLabelContext + static_cast<std::size_t>(i - start);
            if (begins_document(i)) first = i;
            const std::int64_t next = i + 1;
            const bool label = next < end && !(d.separate_documents && begins_document(next)) &&
                               (d.mask.empty() || mask_[static_cast<std::size_t>(next)] == 1);
            EXPECT_EQ(samples.labels[at], label ? next : -100) << "behind token " << i;
            if (next < end) {
                EXPECT_EQ(samples.tokens[at], i);
            }
            if (d.separate_documents) {
                EXPECT_EQ(samples.first_visible[at], first - start) << "token " << i;
            }
        }
        if (!d.separate_documents) {
            EXPECT_THAT(samples.first_visible, IsEmpty());
        }
    }

    std::vector<std::int64_t> starts_;
    std::string mask_;
    ScratchFolder folder_;
};

TEST_F(LabelsTest, EveryRowHasItsLabelsAndDocuments) {
    for (bool documents : {false, true})
        for (bool mask : {false, true}) {
            const Job::Data d = data(documents, mask);
            const Dataset dataset = open(d);
            const Sampler sampler(dataset, kLabelContext, 7, documents);
            Samples samples;
            for (Part part : {Part::train, Part::validation}) {
                sampler.evaluation(part, 3, {0, 300}, samples);
                for (std::size_t row = 0; row < 300; ++row)
                    expect_row(samples, row, samples.tokens[row * kLabelContext], part, d);
                const std::int64_t begin = part == Part::train ? 0 : kCut;
                sampler.cover(part, {0, sampler.cover_rows(part)}, samples);
                for (std::int64_t row = 0; row < sampler.cover_rows(part); ++row)
                    expect_row(samples, static_cast<std::size_t>(row), begin + row * kLabelContext, part, d);
            }
            sampler.training(5, {0, 100}, samples);
            for (std::size_t row = 0; row < 100; ++row)
                expect_row(samples, row, samples.tokens[row * kLabelContext], Part::train, d);
        }
}

TEST_F(LabelsTest, DoNotDependOnTheLayout) {
    const Dataset dataset = open(data(true, true));
    Samples whole;
    Sampler(dataset, kLabelContext, 7, true).training(4, {0, 24}, whole);
    for (int dp : {2, 3, 4})
        for (std::int64_t accumulation : {1, 2}) {
            Samples joined;
            for (int rank = 0; rank < dp; ++rank)
                for (std::int64_t m = 0; m < accumulation; ++m) {
                    Samples own;
                    const RowRange rows = microbatch_rows(24, dp, rank, 24 / dp / accumulation, m);
                    Sampler(dataset, kLabelContext, 7, true).training(4, rows, own);
                    joined.labels.insert(joined.labels.end(), own.labels.begin(), own.labels.end());
                    joined.first_visible.insert(joined.first_visible.end(), own.first_visible.begin(),
                                                own.first_visible.end());
                }
            EXPECT_EQ(joined.labels, whole.labels);
            EXPECT_EQ(joined.first_visible, whole.first_visible);
        }
}

TEST_F(LabelsTest, TheMaskIsKnownByItsSum) {
    const std::uint64_t own = open(data(false, true)).mask_hash();
    EXPECT_EQ(open(data(false, false)).mask_hash(), 0U);
    EXPECT_NE(own, 0U);
    mask_[7] = mask_[7] == 1 ? 0 : 1;
    write_all(folder_ / "mask", mask_);
    EXPECT_NE(open(data(false, true)).mask_hash(), own);
}

TEST_F(LabelsTest, AWrongMaskIsRefused) {
    const Job::Data d = data(false, true);
    write_all(d.mask, mask_ + '\1');
    EXPECT_THAT(refusal(d), AllOf(HasSubstr("data.mask"), HasSubstr("401 bytes, data.path 400 tokens")));
    mask_[9] = 2;
    write_all(d.mask, mask_);
    EXPECT_THAT(refusal(d), AllOf(HasSubstr("byte 9"), HasSubstr("is 2; accepted: 1")));
    std::filesystem::remove(d.mask);
    EXPECT_THAT(refusal(d), AllOf(HasSubstr("data.mask: there is no file"), HasSubstr("one byte a token")));
    Job::Data text = d;
    text.path = (folder_ / "text.txt").string();
    write_all(text.path, "some text");
    write_all(text.mask, std::string(9, '\1'));
    EXPECT_THAT(refusal(text), AllOf(HasSubstr("data.mask"), HasSubstr("cleave tokenize"), HasSubstr("\"bytes\"")));
    text.tokenizer = TokenizerKind::bytes;
    EXPECT_EQ(refusal(text), "");  // a byte is a token there
}

TEST_F(LabelsTest, APartWithoutLabelsIsRefused) {
    Job job;
    job.data = data(false, true);
    job.model.context = kLabelContext;
    job.model.vocabulary = kTokens;
    const auto problems = [&](const std::string& mask) {
        write_all(job.data.mask, mask);
        const Dataset dataset = open(job.data);
        return check(job, 1, &dataset);
    };
    EXPECT_THAT(problems(mask_), IsEmpty());
    std::string half(kTokens, '\1');
    std::fill(half.begin() + kCut, half.end(), '\0');
    EXPECT_THAT(problems(half), ElementsAre(AllOf(HasSubstr("data.mask"), HasSubstr("validation part"))));
    half[kCut] = 1;  // the part's first token is predicted from nothing
    EXPECT_THAT(problems(half), ElementsAre(HasSubstr("validation part")));
    half[kCut + 1] = 1;
    EXPECT_THAT(problems(half), IsEmpty());
    EXPECT_THAT(problems(std::string(kTokens, '\0')), ElementsAre(HasSubstr("train part"), HasSubstr("validation")));
}

class DocumentEndTest : public testing::Test {
  protected:
    Job::Data data(TokenizerKind kind, const std::string& text, const std::string& end) const {
        Job::Data data;
        data.path = (folder_ / "text.txt").string();
        data.tokenizer = kind;
        data.train_fraction = 0.99;
        data.separate_documents = true;
        data.document_end = end;
        write_all(data.path, text);
        return data;
    }
    std::vector<std::int64_t> starts(const Job::Data& data) const {
        return Dataset::open(data, folder_ / "tokens").document_starts(Part::train);
    }
    std::string refusal(const Job::Data& data) const {
        return user_error([&] { Dataset::open(data, folder_ / "tokens", 20); });
    }
    ScratchFolder folder_;
};

TEST_F(DocumentEndTest, EndsADocumentAndBelongsToIt) {
    const std::string text = "ab|cde||f|" + std::string(1000, 'g');
    for (TokenizerKind kind : {TokenizerKind::characters, TokenizerKind::bytes})
        EXPECT_THAT(starts(data(kind, text, "|")), ElementsAre(0, 3, 7, 8, 10));
    Job::Data bpe = data(TokenizerKind::bpe, "one<|endoftext|>two<|endoftext|>", "<|endoftext|>");
    bpe.tokenizer_file = CLEAVE_GOLDEN "/tokenizers/gpt2.json";
    const Dataset dataset = Dataset::open(bpe, folder_ / "tokens");
    const Token end = *dataset.tokenizer().added_token("<|endoftext|>");
    const auto tokens = dataset.tokens(Part::train).copy();
    const auto first = std::find(tokens.begin(), tokens.end(), end) - tokens.begin();
    EXPECT_THAT(dataset.document_starts(Part::train), ElementsAre(0, first + 1));
}

TEST_F(DocumentEndTest, IsAnIdWhereIdsStandForNoText) {
    Job::Data ids = data(TokenizerKind::characters, "", "7");
    ids.path = (folder_ / "t.bin").string();
    ids.train_fraction = 0.9;
    write_all(ids.path, std::string("\1\0\7\0\2\0\3\0\7\0\4\0\5\0\6\0\1\0\1\0", 20));
    EXPECT_THAT(Dataset::open(ids, std::nullopt, 20).document_starts(Part::train), ElementsAre(0, 2, 5));
    for (const char* wrong : {"20", "-1", "x", "7 ", ""}) {
        ids.document_end = wrong;
        EXPECT_THAT(refusal(ids), HasSubstr(*wrong == '\0' ? "data.separate_documents" : "an id from 0 to 19"));
    }
}

TEST_F(DocumentEndTest, SaysWhatIsMissingOrMeaningless) {
    const auto text = [&](const std::string& end) { return data(TokenizerKind::bytes, "ab|cde|f", end); };
    EXPECT_THAT(refusal(text("")), AllOf(HasSubstr("data.separate_documents"), HasSubstr("does not say where"),
                                         HasSubstr("accepted: data.document_end")));
    EXPECT_THAT(refusal(text("|c")), AllOf(HasSubstr("data.document_end"), HasSubstr("which is 2 tokens")));
    EXPECT_THAT(refusal(text("z")), HasSubstr("ends nothing"));
    Job::Data off = text("|");
    off.separate_documents = false;
    EXPECT_THAT(refusal(off), HasSubstr("without data.separate_documents"));
    EXPECT_THAT(data_problems(off), Contains(HasSubstr("data.document_end")));
}

}  // namespace
}  // namespace cleave
