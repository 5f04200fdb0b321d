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

TEST(JobCheck, ZeroNamesWhatFits) {
    Job job;
    for (int stage : {1, 2, 3}) {
        job.zero = {stage, ZeroReduce::microbatch, 0};
        for (int ranks : {1, 4, 12}) EXPECT_THAT(problems(job, ranks), IsEmpty());
        for (int group : {2, 4}) {
            job.zero.group = group;
            EXPECT_THAT(problems(job, 4), IsEmpty());
        }
    }
    job.zero = {2, ZeroReduce::step, 3};
    EXPECT_THAT(problems(job, 4), ElementsAre(AllOf(HasSubstr("zero.group: found 3"), HasSubstr("dp = 4 ranks"),
                                                    HasSubstr("accepted: 2 or 4, or 0"))));
    EXPECT_THAT(problems(job, 1), ElementsAre(HasSubstr("accepted: 0, all of dp")));
    job.zero.group = 2;
    EXPECT_THAT(problems(job, 3), ElementsAre(HasSubstr("accepted: 3, or 0, all of dp")));
    job.zero.group = 1;
    EXPECT_THAT(problems(job, 4), ElementsAre(AllOf(HasSubstr("zero.group: found 1"), HasSubstr("at least 2"))));
    job.zero = {0, ZeroReduce::microbatch, 2};
    EXPECT_THAT(problems(job, 4), ElementsAre(AllOf(HasSubstr("zero.group: found 2"), HasSubstr("zero.stage"))));
    job.zero = {1, ZeroReduce::step, 0};
    EXPECT_THAT(problems(job, 4), IsEmpty());
    job.zero = {4, ZeroReduce::microbatch, 0};
    EXPECT_THAT(problems(job, 4), ElementsAre(AllOf(HasSubstr("zero.stage: found 4"), HasSubstr("from 0 to 3"))));
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
    job.mesh = {.pp = 2};
    EXPECT_THAT(problems(job, 2), IsEmpty());
    EXPECT_THAT(problems(job, 3), ElementsAre(AllOf(HasSubstr("mesh.pp: found 2"), HasSubstr("--ranks 2 or 4"))));
    job.mesh = {.cp = 2};
    EXPECT_THAT(problems(job, 2), ElementsAre(HasSubstr("Not supported yet by this version")));
}

TEST(JobCheck, JudgesTheBatchBesideAnUnsupportedMesh) {
    Job job;
    job.train.batch = 7;
    job.mesh.cp = 2;
    EXPECT_THAT(problems(job, 2), ElementsAre(HasSubstr("mesh.cp: found 2"), HasSubstr("train.batch: found 7")));
    job.mesh.cp = 1;
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

TEST(JobCheck, TensorParallelismCutsHeadsEvenly) {
    Job job;
    job.model.heads = 12;
    job.model.width = 144;
    job.model.vocabulary = 100;
    job.train.batch = 24;
    job.mesh.tp = 8;
    EXPECT_THAT(problems(job, 8),
                ElementsAre(AllOf(HasSubstr("mesh.tp: found 8"), HasSubstr("nearest that can: 6, 12"))));
    job.model.family = Family::llama;
    job.model.kv_heads = 2;  // of 6 query heads: 4 ranks cut 2 key heads and 2 of the 6
    job.mesh.tp = 4;
    EXPECT_THAT(problems(job, 4), IsEmpty());
    job.mesh.tp = 12;
    EXPECT_THAT(problems(job, 12), IsEmpty());
    job.mesh.tp = 5;
    EXPECT_THAT(problems(job, 5), ElementsAre(AllOf(HasSubstr("(model.kv_heads = 2)"), HasSubstr("4, 6"))));
    job.mesh.tp = 4;
    EXPECT_THAT(problems(job, 6), ElementsAre(AllOf(HasSubstr("does not divide the run's 6 ranks"), HasSubstr("3 or 6"),
                                                    HasSubstr("--ranks 4 or 8"))));
    job.mesh.dp = 2;
    EXPECT_THAT(problems(job, 4), ElementsAre(AllOf(HasSubstr("mesh.dp: found 2 with mesh.tp = 4"),
                                                    HasSubstr("accepted: 1, or 0"), HasSubstr("--ranks 8"))));
}

TEST(JobCheck, OptionsOfTensorParallelismNeedIt) {
    Job job;
    job.sequence_parallel = true;
    job.tensor_parallel_chunks = 2;
    EXPECT_THAT(problems(job, 1), ElementsAre(HasSubstr("sequence_parallel: found true"),
                                              HasSubstr("tensor_parallel_chunks: found 2 with mesh.tp = 1")));
    job = {};
    job.sequence_parallel_inputs = SequenceInputs::kept;
    EXPECT_THAT(problems(job, 1), ElementsAre(HasSubstr("without sequence_parallel")));
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
