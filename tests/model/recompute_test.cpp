// Recomputation changes what is kept between forward and backward, and no bit of the results.
#include <gtest/gtest.h>

#include <map>

#include "tiny_model.h"

namespace cleave {
namespace {

struct Outcome {
    double loss = 0;
    std::map<std::string, std::vector<double>> gradients;
    std::int64_t kept = 0;  // bytes of activations between forward and backward
    int ready = 0;          // calls that say that a parameter's gradient is complete
};

Outcome run(const ModelConfig& config, Recompute recompute, bool deferred) {
    Outcome outcome;
    test::on_one_rank([&](CpuEngine& engine) {
        Transformer model(engine, config, data_parallel_layouts(engine.mesh()), DType::f64);
        model.initialize(1);
        test::perturb(model);
        GradientBuckets gradients(model.store());
        gradients.zero();
        const test::Batch batch = test::random_batch(engine, config, 3);
        const auto activations = [&] { return engine.ledger().live(MemoryKind::activations); };
        const std::int64_t before = activations();
        Tape tape(engine, true, recompute);
        {
            const Tensor loss = model.loss(tape, batch.tokens, batch.labels, 1.0 / 7);
            outcome.loss = engine.read(loss, 0);
            outcome.kept = activations() - before;
            const auto count = [&](Parameter&) { ++outcome.ready; };
            if (deferred) {
                tape.backward_inputs(loss);
                tape.run_weight_halves({{}, count});
            } else {
                tape.backward(loss, {{}, count});
            }
        }
        EXPECT_EQ(activations(), before) << "nothing stays";
        for (Parameter* p : model.parameters()) {
            const auto values = test::elements(p->gradient);
            outcome.gradients[p->name].assign(values.begin(), values.end());
        }
        EXPECT_EQ(outcome.ready, static_cast<int>(model.parameters().size())) << "each parameter once";
    });
    return outcome;
}

class RecomputeTest : public testing::TestWithParam<std::tuple<Family, bool>> {};

TEST_P(RecomputeTest, ChangesNoBit) {
    const auto [family, deferred] = GetParam();
    const ModelConfig config = test::tiny(family);
    const Outcome none = run(config, Recompute::none, deferred);
    for (Recompute recompute : {Recompute::selective, Recompute::full}) {
        const Outcome again = run(config, recompute, deferred);
        EXPECT_EQ(again.loss, none.loss);
        EXPECT_EQ(again.gradients, none.gradients);
    }
}

INSTANTIATE_TEST_SUITE_P(Families, RecomputeTest,
                         testing::Combine(testing::Values(Family::gpt2, Family::llama), testing::Bool()));

// Bytes that one more block keeps, in f64, of rows = batch x context tokens (tensors are padded to whole cache lines:
// the sizes here are multiples of them).
std::int64_t kept_by_a_block(ModelConfig config, Recompute recompute) {
    config.width = 32;
    config.mlp_width = 64;
    config.context = 16;
    config.layers = 3;
    const std::int64_t more = run(config, recompute, false).kept;
    config.layers = 2;
    return more - run(config, recompute, false).kept;
}

TEST(Recompute, KeepsWhatItSays) {
    constexpr std::int64_t kRows = 3 * 16;
    constexpr std::int64_t kWidth = 32, kMlp = 64, kHeads = 4;
    constexpr std::int64_t kNumber = 8;  // bytes
    const std::int64_t row = kRows * kNumber;
    // GPT-2: x, norm, q k v, attention, its log-sum-exp, x after attention, norm, up, gelu; 2 norms' mean and rstd.
    const ModelConfig gpt2 = test::tiny(Family::gpt2);
    const std::int64_t all = row * (8 * kWidth + kHeads + 2 * kMlp + 4);
    EXPECT_EQ(kept_by_a_block(gpt2, Recompute::none), all);
    EXPECT_EQ(kept_by_a_block(gpt2, Recompute::selective), all - row * (2 * kWidth + kMlp));
    EXPECT_EQ(kept_by_a_block(gpt2, Recompute::full), row * kWidth);
    // Llama: x, norm, q k v rotated (2 of 4 heads for k and v), attention, log-sum-exp, x, norm, gate, up, swiglu;
    // rstd.
    const ModelConfig llama = test::tiny(Family::llama);
    const std::int64_t llama_all = row * (5 * kWidth + 2 * kWidth + kHeads + 3 * kMlp + 2);
    EXPECT_EQ(kept_by_a_block(llama, Recompute::none), llama_all);
    EXPECT_EQ(kept_by_a_block(llama, Recompute::selective), llama_all - row * (2 * kWidth + kMlp));
    EXPECT_EQ(kept_by_a_block(llama, Recompute::full), row * kWidth);
}

}  // namespace
}  // namespace cleave
