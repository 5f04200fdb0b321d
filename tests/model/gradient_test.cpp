// Every parameter's gradient of whole models against central finite differences, in f64.
#include <gtest/gtest.h>

#include "finite_differences.h"
#include "tiny_model.h"

namespace cleave {
namespace {

constexpr double kLossScale = 1.0 / 11.0;

struct Case {
    test::Variant variant;
    bool tied;
    bool deferred;  // weight halves after all input halves
};

class Gradients : public testing::TestWithParam<Case> {};

TEST_P(Gradients, EqualFiniteDifferences) {
    const Case param = GetParam();
    test::on_one_rank([&](CpuEngine& engine) {
        ModelConfig config = test::tiny(param.variant);
        config.tied_embeddings = param.tied;
        Transformer model(engine, config, data_parallel_layouts(engine.mesh()), DType::f64);
        model.initialize(1);
        test::perturb(model);
        const auto parameters = model.parameters();
        GradientBuckets gradients(model.store());
        gradients.zero();
        const test::Batch batch = test::random_batch(engine, config, 3);

        Tape tape(engine);
        const Tensor loss = model.loss(tape, batch.tokens, batch.labels, kLossScale);
        int ready = 0;
        const auto count = [&](Parameter&) { ++ready; };
        if (param.deferred) {
            tape.backward_inputs(loss);
            EXPECT_EQ(ready, 0);
            tape.run_weight_halves({{}, count});
        } else {
            tape.backward(loss, {{}, count});
        }
        EXPECT_EQ(ready, static_cast<int>(parameters.size())) << "each parameter is ready once";

        auto value = [&] {
            Tape forward(engine, false);
            return engine.read(model.loss(forward, batch.tokens, batch.labels, kLossScale), 0);
        };
        test::expect_finite_differences(parameters, value);
    });
}

INSTANTIATE_TEST_SUITE_P(
    Models, Gradients,
    testing::Values(Case{test::Variant::gpt2, true, false}, Case{test::Variant::gpt2, false, true},
                    Case{test::Variant::gpt2, true, true}, Case{test::Variant::llama, true, false},
                    Case{test::Variant::llama, false, false}, Case{test::Variant::llama, true, true},
                    Case{test::Variant::qwen2, true, false}, Case{test::Variant::qwen2, false, true},
                    Case{test::Variant::qwen3, true, false}, Case{test::Variant::qwen3, false, true},
                    Case{test::Variant::llama3, true, false}),
    [](const auto& info) {
        return test::name_of(info.param.variant) + (info.param.tied ? "Tied" : "Untied") +
               (info.param.deferred ? "WeightsLater" : "");
    });

// The objective has the gradient; the loss that is shown stays the cross entropy's, bit for bit.
TEST(ZLoss, GradientsEqualFiniteDifferencesOfTheObjective) {
    for (Family family : {Family::gpt2, Family::llama})
        test::on_one_rank([&](CpuEngine& engine) {
            const ModelConfig config = test::tiny(family);
            Transformer model(engine, config, data_parallel_layouts(engine.mesh()), DType::f64);
            model.initialize(1);
            test::perturb(model);
            GradientBuckets gradients(model.store());
            gradients.zero();
            const test::Batch batch = test::random_batch(engine, config, 3);
            constexpr double kCoefficient = 0.3;
            const auto losses = [&](Tape& tape) {
                return model.losses(tape, batch.tokens, batch.labels, kLossScale, kCoefficient);
            };
            Tape tape(engine);
            const Loss loss = losses(tape);
            tape.backward(loss.objective);

            Tape forward(engine, false);
            const double alone = engine.read(model.loss(forward, batch.tokens, batch.labels, kLossScale), 0);
            const double z_loss = engine.read(loss.z_loss, 0);
            EXPECT_EQ(engine.read(loss.cross_entropy, 0), alone);
            EXPECT_GT(z_loss, 0.01);
            EXPECT_EQ(engine.read(loss.objective, 0), alone + z_loss);
            test::expect_finite_differences(model.parameters(), [&] {
                Tape again(engine, false);
                return engine.read(losses(again).objective, 0);
            });
        });
}

// Input and weight halves run apart give the bits of running them together.
TEST(WeightHalves, LaterGiveTheSameBits) {
    test::on_one_rank([&](CpuEngine& engine) {
        const ModelConfig config = test::tiny(Family::gpt2);
        Transformer model(engine, config, data_parallel_layouts(engine.mesh()), DType::f64);
        model.initialize(1);
        const auto parameters = model.parameters();
        GradientBuckets gradients(model.store());
        const test::Batch batch = test::random_batch(engine, config, 3);
        std::vector<std::vector<double>> together;
        for (bool later : {false, true}) {
            gradients.zero();
            Tape tape(engine);
            const Tensor loss = model.loss(tape, batch.tokens, batch.labels, kLossScale);
            if (later) {
                tape.backward_inputs(loss);
                tape.run_weight_halves();
            } else {
                tape.backward(loss);
            }
            for (std::size_t p = 0; p < parameters.size(); ++p) {
                const auto values = test::elements(parameters[p]->gradient);
                if (later)
                    EXPECT_EQ(together[p], std::vector<double>(values.begin(), values.end())) << parameters[p]->name;
                else
                    together.emplace_back(values.begin(), values.end());
            }
        }
    });
}

// Nothing is left when a step is over: the tape keeps no tensor alive.
TEST(Tape, ReturnsAllMemory) {
    test::on_one_rank([&](CpuEngine& engine) {
        const ModelConfig config = test::tiny(Family::llama);
        Transformer model(engine, config, data_parallel_layouts(engine.mesh()), DType::f64);
        model.initialize(1);
        const auto parameters = model.parameters();
        GradientBuckets gradients(model.store());
        const test::Batch batch = test::random_batch(engine, config, 3);
        const auto before = engine.ledger().live();
        {
            Tape tape(engine);
            tape.backward(model.loss(tape, batch.tokens, batch.labels, kLossScale));
        }
        EXPECT_EQ(engine.ledger().live(), before);
        EXPECT_EQ(engine.allocator().live_bytes(), before);
    });
}

// Weights depend on the seed, the name and the index, not on what was drawn before: the same layer in a deeper model
// has the same weights.
TEST(Initialization, DependsOnSeedNameAndIndexOnly) {
    test::on_one_rank([&](CpuEngine& engine) {
        ModelConfig config = test::tiny(Family::gpt2);
        Transformer model(engine, config, data_parallel_layouts(engine.mesh()), DType::f64);
        model.initialize(1);
        ModelConfig wider = config;
        wider.vocabulary = 29;  // draws more before the first block
        Transformer other(engine, wider, data_parallel_layouts(engine.mesh()), DType::f64);
        other.initialize(1);
        for (std::size_t p = 0; p < model.parameters().size(); ++p) {
            const Parameter& a = *model.parameters()[p];
            const Parameter& b = *other.parameters()[p];
            const auto values = test::elements(a.value);
            const auto others = test::elements(b.value);
            ASSERT_TRUE(std::equal(values.begin(), values.end(), others.begin())) << a.name;
        }
        other.initialize(2);
        EXPECT_NE(test::elements(model.parameters()[0]->value)[0], test::elements(other.parameters()[0]->value)[0]);
    });
}

}  // namespace
}  // namespace cleave
