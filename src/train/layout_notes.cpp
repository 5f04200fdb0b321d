#include "train/layout_notes.h"

#include "base/words.h"

namespace cleave {

std::vector<std::string> layout_notes(const Job& job, int dp) {
    std::vector<std::string> notes;
    if (const std::int64_t chunks = communication_chunks(job, dp); chunks < job.tensor_parallel_chunks)
        notes.push_back(fmt::format(
            "tensor_parallel_chunks = {}: sent in {}, one a sequence, since a microbatch has {}",
            job.tensor_parallel_chunks, counted(chunks, "chunk"), counted(microbatch_size(job, dp), "sequence")));
    const Job::Zero& zero = job.zero;
    if (zero.reduce == ZeroReduce::step && zero.stage < 2)
        notes.push_back(
            fmt::format("zero.reduce = \"step\": so it is in stage {} anyway; it makes a difference in stages 2 and 3",
                        zero.stage));
    if (zero.stage > 0 && dp == 1)
        notes.push_back(fmt::format("zero.stage = {}: dp has 1 rank, so that nothing is cut", zero.stage));
    return notes;
}

}  // namespace cleave
