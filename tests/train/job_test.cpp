// What a job derives from the number of ranks.
#include "train/job.h"

#include <gtest/gtest.h>

namespace cleave {
namespace {

TEST(Job, TheBatchIsRanksTimesAccumulationTimesMicrobatch) {
    Job job;
    job.train.batch = 24;
    for (int dp : {1, 2, 3, 4, 8}) {
        job.train.microbatch = 0;  // the rank's whole share
        EXPECT_EQ(microbatch_size(job, dp), 24 / dp);
        EXPECT_EQ(accumulation(job, dp, job.train.batch), 1);
        job.train.microbatch = 1;
        EXPECT_EQ(microbatch_size(job, dp), 1);
        EXPECT_EQ(accumulation(job, dp, job.train.batch), 24 / dp);
    }
}

TEST(Job, DataParallelRanksFillWhatTheOtherAxesLeave) {
    Job job;
    EXPECT_EQ(data_parallel_ranks(job, 6), 6);
    job.mesh.tp = 2;
    job.mesh.cp = 3;
    EXPECT_EQ(data_parallel_ranks(job, 6), 1);
    EXPECT_EQ(data_parallel_ranks(job, 24), 4);
    EXPECT_EQ(data_parallel_ranks(job, 8), 0);  // does not divide
    job.mesh.dp = 5;
    EXPECT_EQ(data_parallel_ranks(job, 8), 5);  // as asked; job_check compares it with the ranks
}

TEST(Job, AMicrobatchTravelsInAtMostOneChunkASequence) {
    Job job;
    job.train.batch = 24;
    job.train.microbatch = 3;
    for (const auto& [asked, expected] : {std::pair{1, 1}, {2, 2}, {3, 3}, {4, 3}, {100, 3}}) {
        job.tensor_parallel_chunks = asked;
        EXPECT_EQ(communication_chunks(job, 2), expected);
    }
}

}  // namespace
}  // namespace cleave
