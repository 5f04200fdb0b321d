// What runs in a weight half that runs later: the kernels of weights, and what is communicated again for them. What is
// computed again is so in the input half (and lives until then).
#include <gtest/gtest.h>

#include <set>

#include "parallel/sequence_parallel.h"
#include "parallel/tensor_parallel.h"
#include "tiny_model.h"

namespace cleave::weight_halves {
namespace {

struct Halves {
    std::vector<Event> input;
    std::vector<Event> weight;
};

Halves run(CpuEngine& engine, const ModelLayouts& layouts, const ModelConfig& config, Recompute recompute) {
    Transformer model(engine, config, layouts, DType::f64);
    model.initialize(1);
    GradientBuckets gradients(model.store());
    gradients.zero();
    const test::Batch batch = test::random_batch(engine, config, 3);
    Tape tape(engine, true, recompute);
    Halves halves;
    {
        const Tensor loss = model.loss(tape, batch.tokens, batch.labels, 1.0 / 7);
        engine.trace().start();
        tape.backward_inputs(loss);
        halves.input = engine.trace().events();
    }
    engine.trace().start();
    tape.run_weight_halves();
    halves.weight = engine.trace().events();
    engine.trace().stop();
    return halves;
}

std::set<std::string> names(const std::vector<Event>& events, EventType type) {
    std::set<std::string> result;
    for (const Event& event : events)
        if (event.type == type) result.insert(event.name);
    return result;
}

TEST(WeightHalves, RunTheKernelsOfWeightsAlone) {
    for (const Family family : {Family::gpt2, Family::llama})
        for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full})
            test::on_one_rank([&](CpuEngine& engine) {
                const Halves halves = run(engine, data_parallel_layouts(engine.mesh()), test::tiny(family), recompute);
                std::set<std::string> expected{"embedding_backward", "matmul"};
                if (family == Family::gpt2)
                    expected.insert({"add_positions_backward", "column_sum", "layer_norm_backward_weight"});
                else
                    expected.insert("rms_norm_backward_weight");
                EXPECT_EQ(names(halves.weight, EventType::launch), expected);
            });
}

TEST(WeightHalves, GatherAgainWhatTheyRead) {
    const Mesh mesh({{"pp", 1}, {"dp", 1}, {"cp", 1}, {"tp", 2}});
    comm::LaunchOptions options;
    options.ranks = 2;
    for (const Recompute recompute : {Recompute::none, Recompute::selective})
        comm::run_ranks(options, [&](comm::Communicator& world) {
            CpuEngine engine(mesh, world, 1);
            ModelLayouts layouts = data_parallel_layouts(mesh);
            add_tensor_parallelism(layouts, mesh);
            add_sequence_parallelism(layouts, true);
            const Halves halves = run(engine, layouts, test::tiny(Family::gpt2), recompute);
            EXPECT_EQ(names(halves.weight, EventType::issue), std::set<std::string>{"all_gather"});
            const auto norms = names(halves.weight, EventType::launch);
            EXPECT_EQ(norms.count("layer_norm"), 0U) << "what is gathered was computed in the input half";
            EXPECT_EQ(names(halves.input, EventType::launch).count("layer_norm"),
                      recompute == Recompute::selective ? 1U : 0U);
        });
}

}  // namespace
}  // namespace cleave::weight_halves
