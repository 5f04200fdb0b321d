// What is refused, and that the nearest values it names are accepted.
#include "train/job_check.h"

#include <gmock/gmock.h>

#include "support/scratch.h"

namespace cleave {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Dataset dataset_of(std::size_t characters, double train_fraction = 0.9) {
    std::string text;
    for (std::size_t i = 0; i < characters; ++i) text += static_cast<char>('a' + i % 26);
    Job::Data data;
    data.path = "text.txt";
    data.train_fraction = train_fraction;
    return Dataset::from_text(text, data);
}

std::vector<std::string> problems(const Job& job, int ranks) {
    static const Dataset dataset = dataset_of(10000);
    return check(job, ranks, &dataset);
}

TEST(JobCheck, AcceptsTheDefaults) {
    for (int ranks : {1, 2, 3, 4, 6, 12}) EXPECT_THAT(problems(Job(), ranks), IsEmpty());
}

TEST(JobCheck, ReportsEverythingAtOnce) {
    Job job;
    job.model.heads = 3;
    job.mesh.tp = 2;
    job.train.min_lr = 1;
    job.train.warmup_steps = 5000;
    job.sample.prompt = "a?";
    EXPECT_THAT(problems(job, 2),
                ElementsAre(HasSubstr("model.heads: found 3"), HasSubstr("mesh.tp: found 2"),
                            HasSubstr("train.warmup_steps: found 5000"), HasSubstr("train.min_lr: found 1"),
                            HasSubstr("sample.prompt: the character '?'")));
}

TEST(JobCheck, NamesBatchesThatDivide) {
    Job job;
    job.train.batch = 10;
    EXPECT_THAT(problems(job, 4), ElementsAre(AllOf(HasSubstr("train.batch: found 10"), HasSubstr("8 or 12"),
                                                    HasSubstr("2 or 5 ranks"))));
    for (int batch : {8, 12}) {
        job.train.batch = batch;
        EXPECT_THAT(problems(job, 4), IsEmpty());
    }
    job.train.batch = 10;
    for (int ranks : {2, 5}) EXPECT_THAT(problems(job, ranks), IsEmpty());
    job.train.batch = 2;
    EXPECT_THAT(problems(job, 4), ElementsAre(AllOf(HasSubstr("nearest that do: 4,"), HasSubstr("or 2 ranks"))));
}

TEST(JobCheck, NamesMicrobatchesThatDivide) {
    Job job;
    job.train.batch = 24;
    job.train.microbatch = 5;
    EXPECT_THAT(problems(job, 2), ElementsAre(AllOf(HasSubstr("train.microbatch: found 5"), HasSubstr("= 12 sequences"),
                                                    HasSubstr("4 or 6"), HasSubstr("train.batch of 20 or 30"))));
    for (int microbatch : {4, 6}) {
        job.train.microbatch = microbatch;
        EXPECT_THAT(problems(job, 2), IsEmpty());
    }
    job.train.microbatch = 5;
    for (int batch : {20, 30}) {
        job.train.batch = batch;
        EXPECT_THAT(problems(job, 2), IsEmpty());
    }
    job.train.microbatch = 100;
    job.train.batch = 24;
    EXPECT_THAT(problems(job, 2), ElementsAre(HasSubstr("nearest that do: 12,")));
}

TEST(JobCheck, NamesHeadsThatDivide) {
    Job job;
    job.model.heads = 5;
    EXPECT_THAT(problems(job, 1), ElementsAre(AllOf(HasSubstr("model.heads: found 5"), HasSubstr("4 or 8 heads"),
                                                    HasSubstr("125 or 130"))));
    job.model.heads = 500;
    EXPECT_THAT(problems(job, 1), ElementsAre(AllOf(HasSubstr("128 heads"), HasSubstr("a width of 500"))));
}

TEST(JobCheck, ChecksGroupedHeads) {
    Job job;
    job.model.kv_heads = 2;
    EXPECT_THAT(problems(job, 1),
                ElementsAre(HasSubstr("model.kv_heads: found 2; family gpt2 accepts 0 or model.heads = 4")));
    job.model.family = Family::llama;
    EXPECT_THAT(problems(job, 1), IsEmpty());
    job.model.kv_heads = 3;
    EXPECT_THAT(problems(job, 1), ElementsAre(AllOf(HasSubstr("model.kv_heads: found 3"), HasSubstr("2 or 4"))));
    job.model.kv_heads = 0;
    job.model.heads = 128;  // heads of width 1
    EXPECT_THAT(problems(job, 1), ElementsAre(AllOf(HasSubstr("even width"), HasSubstr("256"))));
}

TEST(JobCheck, ComparesTheMeshWithTheRanks) {
    Job job;
    job.mesh.dp = 3;
    EXPECT_THAT(problems(job, 2),
                ElementsAre(AllOf(HasSubstr("mesh.dp: found 3"), HasSubstr("2 ranks"), HasSubstr("--ranks 3"))));
    EXPECT_THAT(problems(job, 3), IsEmpty());
    for (int* axis : {&job.mesh.pp, &job.mesh.cp, &job.mesh.tp}) {
        job.mesh = {};
        *axis = 2;
        EXPECT_THAT(problems(job, 2), ElementsAre(HasSubstr("Not supported yet by this version")));
    }
}

TEST(JobCheck, JudgesTheBatchBesideAnUnsupportedMesh) {
    Job job;
    job.train.batch = 7;
    job.mesh.tp = 2;
    EXPECT_THAT(problems(job, 2), ElementsAre(HasSubstr("mesh.tp: found 2"), HasSubstr("train.batch: found 7")));
    job.mesh.tp = 1;
    job.mesh.dp = 3;
    EXPECT_THAT(problems(job, 2), ElementsAre(HasSubstr("mesh.dp: found 3"), HasSubstr("over dp = 3 ranks")));
}

TEST(JobCheck, ChecksTheLengthOfTheText) {
    Job job;  // 65 tokens for a sequence
    job.data.path = "text.txt";
    const auto found = [&](std::size_t characters, double fraction) {
        const Dataset dataset = dataset_of(characters, fraction);
        return check(job, 1, &dataset);
    };
    EXPECT_THAT(found(650, 0.9), IsEmpty());  // 585 + 65
    EXPECT_THAT(found(640, 0.9),
                ElementsAre(AllOf(HasSubstr("the validation part of 'text.txt' has 64 tokens"), HasSubstr("+ 1 = 65"),
                                  HasSubstr("at most 63"), HasSubstr("smaller data.train_fraction"))));
    EXPECT_THAT(found(50, 0.9), ElementsAre(HasSubstr("the train part"), HasSubstr("the validation part")));
    job.model.context = 63;
    EXPECT_THAT(found(640, 0.9), IsEmpty());
}

TEST(JobCheck, ComparesTheVocabulary) {
    Job job;
    job.model.vocabulary = 25;
    EXPECT_THAT(problems(job, 1),
                ElementsAre(AllOf(HasSubstr("model.vocabulary: found 25"), HasSubstr("at least 26"))));
    job.weights = "given";  // their table has so many rows
    EXPECT_THAT(problems(job, 1), ElementsAre(HasSubstr("a tokenizer with at most 25, or other weights")));
    job.model.vocabulary = 32;
    EXPECT_THAT(problems(job, 1), IsEmpty());
}

TEST(JobCheck, AStepThatNeverComesHasNoTrace) {
    Job job;
    job.train.steps = 200;
    job.run.trace_step = 201;
    EXPECT_THAT(problems(job, 1),
                ElementsAre(AllOf(HasSubstr("run.trace_step: found 201"), HasSubstr("from 1 to 200"))));
    job.run.trace_step = 200;
    EXPECT_THAT(problems(job, 1), IsEmpty());
}

TEST(JobCheck, ShowsWhatToTypeForAShortRun) {
    Job job;
    job.train.steps = 30;
    job.train.min_lr = 2;
    EXPECT_THAT(
        problems(job, 1),
        ElementsAre(HasSubstr("train.steps = 30; accepted: at most 30, for instance --set train.warmup_steps=3"),
                    HasSubstr("for instance --set train.min_lr=0.0001")));
}

TEST(JobCheck, OneIsNoPlural) {
    Job job;
    job.mesh.dp = 2;
    EXPECT_THAT(problems(job, 1), ElementsAre(HasSubstr("the run has 1 rank; accepted: 1,")));
}

TEST(JobCheck, RangesComeFirstSoThatNothingDividesByZero) {
    Job job;
    job.model.heads = 0;
    job.train.batch = -1;
    job.train.lr = std::numeric_limits<double>::infinity();
    EXPECT_THAT(problems(job, 2),
                AllOf(Contains(HasSubstr("model.heads: found 0")), Contains(HasSubstr("train.batch: found -1"))));
}

TEST(JobCheck, WithoutADatasetTheFileIsStillLookedFor) {
    Job job;
    EXPECT_THAT(check(job, 1), ElementsAre(HasSubstr("no text is named")));
    job.data.path = "/nowhere/text.txt";
    EXPECT_THAT(check(job, 1), ElementsAre(HasSubstr("there is no file '/nowhere/text.txt'")));
}

}  // namespace
}  // namespace cleave
