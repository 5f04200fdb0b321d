// What a resumed run is told of its bits. (That they differ, or do not, is shown by runs: tests/cli/resume_test.cpp.)
#include "train/resume_bits.h"

#include <gmock/gmock.h>

namespace cleave::resumed {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string difference(const Job& saved, const Job& now, int dp = 4, int dp_now = 4, int team = 1, int team_now = 1) {
    return bits_difference(saved, to_json(this_environment(dp, team)), now, this_environment(dp_now, team_now));
}

Job job_of(std::int64_t microbatch = 0) {
    Job job;
    job.train.batch = 24;
    job.train.microbatch = microbatch;
    return job;
}

TEST(BitsDifference, NamesHowSumsAreCut) {
    const Job job = job_of();
    EXPECT_EQ(difference(job, job), "");
    EXPECT_EQ(difference(job, job, 4, 4, 1, 3), "threads of a rank was 1, is 3");
    Job other = job;
    other.mesh.tp = 2;
    EXPECT_EQ(difference(job, other), "tp was 1, is 2");
    other = job;
    other.sequence_parallel = true;
    EXPECT_EQ(difference(job, other), "sequence_parallel was false, is true");
    EXPECT_EQ(difference(job, job, 4, 2), "dp was 4, is 2; sequences in a pass was 6, is 12");
    EXPECT_EQ(difference(job_of(3), job_of(3), 4, 2), "dp was 4, is 2");
    EXPECT_EQ(difference(job, job_of(6)), "") << "spelt out";
    EXPECT_EQ(difference(job, job_of(2)), "sequences in a pass was 6, is 2");
    other = job;
    other.mesh.dp = 4;
    EXPECT_EQ(difference(job, other), "") << "spelt out";
    other.model.attention = AttentionKind::materialised;
    EXPECT_THAT(difference(job, other), HasSubstr("model.attention was \"fused\", is"));
}

TEST(BitsDifference, AStageOfZeroIsOneOnlyWhereItSumsEachMicrobatch) {
    for (const std::int64_t microbatch : {0, 2})
        for (const int was : {0, 1, 2, 3})
            for (const int is : {0, 1, 2, 3})
                for (const ZeroReduce reduce : {ZeroReduce::microbatch, ZeroReduce::step}) {
                    Job saved = job_of(microbatch), now = job_of(microbatch);
                    saved.zero = {was, ZeroReduce::microbatch, 0};
                    now.zero = {is, reduce, 0};
                    const bool each_was = was >= 2;
                    const bool each_is = is >= 2 && reduce == ZeroReduce::microbatch;
                    const bool differs = microbatch != 0 && each_was != each_is;
                    EXPECT_EQ(!difference(saved, now).empty(), differs) << was << " to " << is;
                }
}

TEST(BitsDifference, GroupsOfPowersOfTwoAreBranchesOfTheTree) {
    Job whole = job_of();
    whole.zero.stage = 1;
    for (const auto& [dp, group, differs] : {std::tuple{4, 2, false}, {6, 2, false}, {6, 3, true}, {6, 6, false}}) {
        Job groups = whole;
        groups.zero.group = group;
        EXPECT_EQ(!difference(whole, groups, dp, dp).empty(), differs) << dp << " in groups of " << group;
    }
}

TEST(BitsDifference, NamesTheMachine) {
    const Job job = job_of();
    Environment here = this_environment(4, 1);
    here.instruction_set = "none";
    here.build = "another";
    const std::string text = bits_difference(job, to_json(this_environment(4, 1)), job, here);
    EXPECT_THAT(text, AllOf(HasSubstr("instruction set was"), HasSubstr("build was"), Not(HasSubstr("dp"))));
    EXPECT_THAT(bits_difference(job, Json(), job, this_environment(4, 1)),
                AllOf(HasSubstr("build was not recorded"), HasSubstr("dp was not recorded, is 4")));
    // Products in f64 are our own, whose sums do not depend on the team.
    Job exact = job;
    exact.train.dtype = DType::f64;
    EXPECT_EQ(difference(exact, exact, 4, 4, 1, 3), "");
}

}  // namespace
}  // namespace cleave::resumed
