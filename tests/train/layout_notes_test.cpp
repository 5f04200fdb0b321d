// What an accepted layout does not do is said.
#include "train/layout_notes.h"

#include <gmock/gmock.h>

#include "train/job_check.h"

namespace cleave {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(LayoutNotes, TellOfChunksThatThereAreNoSequencesFor) {
    Job job;
    job.train.batch = 4;
    job.mesh.tp = 2;
    job.tensor_parallel_chunks = 5;
    EXPECT_THAT(layout_notes(job, 2),
                ElementsAre("tensor_parallel_chunks = 5: sent in 2 chunks, one a sequence, since a microbatch has 2 "
                            "sequences"));
    EXPECT_THAT(layout_notes(job, 4), ElementsAre(HasSubstr("sent in 1 chunk, one a sequence, since a microbatch has 1 "
                                                            "sequence")));
    job.tensor_parallel_chunks = 2;
    EXPECT_THAT(layout_notes(job, 2), IsEmpty());
}

TEST(LayoutNotes, TellOfZeroThatChangesNothing) {
    Job job;
    job.zero.reduce = ZeroReduce::step;
    for (const int stage : {0, 1, 2, 3}) {
        job.zero.stage = stage;
        EXPECT_EQ(layout_notes(job, 2).size(), stage < 2 ? 1U : 0U) << stage;
        job.model.vocabulary = 64;
        EXPECT_THAT(check_without_text(job, 2), IsEmpty()) << "one file for a scan over stages";
    }
    EXPECT_THAT(layout_notes(job, 1), ElementsAre("zero.stage = 3: dp has 1 rank, so that nothing is cut"));
}

}  // namespace
}  // namespace cleave
