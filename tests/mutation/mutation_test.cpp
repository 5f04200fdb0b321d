// Each planted error must make the comparison of layouts fail, in f64 and in bf16. This program is built with the
// mutations in it: its copies of the files that have them stand before the libraries'.
#include <gtest/gtest.h>

#include "base/mutation.h"
#include "parity/layouts.h"
#include "train/verify.h"

namespace cleave {
namespace {

struct Planted {
    Mutation mutation;
    const char* name;
};

class SlowMutations : public testing::TestWithParam<std::tuple<Planted, DType>> {
  protected:
    void TearDown() override { planted_mutation = Mutation::none; }
};

TEST_P(SlowMutations, AreFound) {
    const auto [planted, dtype] = GetParam();
    Job job = test::layout_job({.variant = test::Variant::gpt2, .tied = true});
    job.mesh.dp = 2;
    job.mesh.tp = 2;
    if (planted.mutation == Mutation::other_owner_not_added) {
        job.mesh.pp = 2;
        job.mesh.dp = 1;
        job.train.microbatch = job.train.batch / 4;
    }
    job.sequence_parallel = planted.mutation != Mutation::input_gradient_not_summed;
    job.train.dtype = dtype;
    Job one = on_one_rank(job);
    const ProofRun in_dtype = proof_run(one, 1, 1, 2);
    one.train.dtype = DType::f64;
    const ProofRun reference = proof_run(one, 1, 1, 2);
    const VerifyReport right = compare(job, reference, in_dtype, proof_run(job, 4, 1, 2));
    EXPECT_TRUE(right.equal()) << right.first_difference;
    planted_mutation = planted.mutation;
    const VerifyReport wrong = compare(job, reference, in_dtype, proof_run(job, 4, 1, 2));
    EXPECT_FALSE(wrong.equal());
}

INSTANTIATE_TEST_SUITE_P(
    All, SlowMutations,
    testing::Combine(testing::Values(Planted{Mutation::input_gradient_not_summed, "InputGradientNotSummed"},
                                     Planted{Mutation::gain_not_summed, "GainNotSummed"},
                                     Planted{Mutation::tied_gradient_dropped, "TiedGradientDropped"},
                                     Planted{Mutation::vocabulary_not_masked, "VocabularyNotMasked"},
                                     Planted{Mutation::other_owner_not_added, "OtherOwnerNotAdded"},
                                     Planted{Mutation::loss_scaled_per_rank, "LossScaledPerRank"}),
                     testing::Values(DType::f64, DType::bf16)),
    [](const auto& info) {
        return std::string(std::get<0>(info.param).name) + "_" + std::string(name_of(std::get<1>(info.param)));
    });

}  // namespace
}  // namespace cleave
