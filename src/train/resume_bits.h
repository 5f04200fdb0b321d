// What bits depend on beside what is learnt: how sums are cut, and by whom they are computed. A run that is resumed
// with another value of one of these goes on with the same sums in another order. Thread rule: pure functions.
#pragma once

#include <string>

#include "base/json.h"
#include "train/job.h"

namespace cleave {

// What the job does not say; a checkpoint keeps it in its metadata.
struct Environment {
    std::string build;            // compiler and version of Cleave
    std::string instruction_set;  // the widest that this processor has
    int dp = 1;                   // ranks that share the batch (the job may say: all)
    int team = 1;                 // threads of a rank
};
Environment this_environment(int dp, int team);
Json to_json(const Environment& environment);

// Each of them that differs between a checkpoint (its job, and the environment in its metadata) and now: "dp was 2, is
// 1; tp was 1, is 2"; empty where the bits are those of a run that was not interrupted. The stage of ZeRO is not among
// them, but where it sums gradients after every microbatch (docs/zero.md); nor are groups of ranks whose number is a
// power of two, since the sums' tree has them as branches.
std::string bits_difference(const Job& saved, const Json& saved_environment, const Job& now, const Environment& here);

}  // namespace cleave
