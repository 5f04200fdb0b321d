// Parameters of every class of placements along tp (cut by either dim, in units, cut and repeated, R, I) beside ZeRO
// along dp: initial values, reduced gradients, norm and update have the bits of one rank that holds everything.
// Gradients are whole numbers, so that every order of sums is exact.
#include <gtest/gtest.h>

#include <mutex>

#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "parallel/data_parallel.h"
#include "train/optimizer.h"

namespace cleave::sharded_state {
namespace {

struct Place {
    int dp;
    int tp;
    int stage;
    int group = 0;
};

Mesh mesh_on(const Place& place) {
    Mesh mesh({{"pp", 1}, {"dp", place.dp}, {"cp", 1}, {"tp", place.tp}});
    const int heads = std::min(place.tp, 2);
    mesh.add_view({"tp"}, {{"tp.kv", heads}, {"tp.rep", place.tp / heads}});
    split_for_zero(mesh, place.group);
    return mesh;
}

std::vector<Parameter> parameters_on(const Mesh& mesh) {
    const AxisId tp = mesh.axis("tp");
    struct Class {
        const char* name;
        Shape shape;
        Layout along_layers;
        bool decays;
    };
    const std::vector<Class> classes{
        {"rows", {29, 6}, {{tp, S(0)}}, true},
        {"columns", {6, 1000}, {{tp, S(1)}}, true},
        {"units", {5, 8, 3}, {{tp, S(1, 2)}}, true},
        {"shared heads", {4, 300}, {{mesh.axis("tp.kv"), S(0)}, {mesh.axis("tp.rep"), R}}, true},
        {"bias", {40}, {{tp, S(0)}}, false},
        {"gain of sharded rows", {700}, {{tp, R}}, false},
        {"invariant gain", {33}, {}, false},
    };
    std::vector<Parameter> parameters;
    for (const Class& each : classes) {
        Parameter p;
        p.name = each.name;
        p.shape = each.shape;
        p.decays = each.decays;
        p.initial_deviation = 0.5;
        p.group = static_cast<int>(parameters.size()) / 3;
        p.layout = data_parallel_layouts(mesh).stream_parameter;
        for (const auto& [axis, placement] : each.along_layers) p.layout.set(axis, placement);
        parameters.push_back(std::move(p));
    }
    return parameters;
}

// Calls f(global index, element) for this rank's piece.
template <class T, class F>
void for_each_element(const Tensor& tensor, F&& f) {
    const kernels::View& view = tensor.view();
    for (std::int64_t i = 0; i < view.elements(); ++i) {
        std::int64_t rest = i;
        std::int64_t global = 0;
        std::int64_t stride = 1;
        for (int d = view.shape.rank() - 1; d >= 0; --d) {
            global += (view.offset[d] + rest % view.shape[d]) * stride;
            rest /= view.shape[d];
            stride *= view.global[d];
        }
        f(global, view.as<T>()[i]);
    }
}

std::int64_t number(const std::string& name, std::int64_t index, int salt) {
    return (index * 7919 + salt * 104729 + static_cast<std::int64_t>(name.size()) * 31) % 23 - 11;
}

// This rank's term of the gradient number(name, index, 0): the first of those that share the sum has what is left.
std::int64_t term(const Engine& engine, const Parameter& p, std::int64_t index) {
    std::vector<AxisId> axes;
    for (const auto& [axis, placement] : p.layout)
        if (placement == R) axes.push_back(axis);
    const int own = engine.mesh().joint_coordinate(engine.rank(), axes);
    if (own > 0) return number(p.name, index, own);
    std::int64_t rest = number(p.name, index, 0);
    for (int r = 1; r < engine.mesh().joint_size(axes); ++r) rest -= number(p.name, index, r);
    return rest;
}

using Bytes = std::map<std::string, std::vector<std::byte>>;

Bytes bytes_of(const ParameterBuckets& buckets, const Flats& flats) {
    Bytes bytes;
    buckets.visit(flats, [&](const Parameter& p, const Tensor& whole) {
        EXPECT_EQ(whole.local_shape(), p.shape);
        const auto* data = static_cast<const std::byte*>(whole.view().data);
        bytes[p.name].assign(data, data + whole.view().bytes());
    });
    return bytes;
}

struct Outcome {
    Bytes initial, gradients, updated;
    std::vector<Bytes> moments;
    double norm = 0;
    friend bool operator==(const Outcome&, const Outcome&) = default;
};

// What rank 0 saw; all ranks saw the same.
Outcome run(const Place& place, DType dtype) {
    const Mesh mesh = mesh_on(place);
    comm::LaunchOptions launch;
    launch.ranks = mesh.world_size();
    std::vector<Outcome> outcomes(static_cast<std::size_t>(launch.ranks));
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        CpuEngine engine(mesh, world, 1);
        std::vector<Parameter> parameters = parameters_on(mesh);
        std::vector<Parameter*> pointers;
        for (Parameter& p : parameters) pointers.push_back(&p);
        ParameterStore store(engine, pointers, dtype, {.stage = place.stage, .bucket_bytes = 5000});
        store.initialize(3);
        GradientBuckets gradients(store);
        Job job;
        job.train.weight_decay = 0.3;
        Optimizer optimizer(store, job);
        Outcome& outcome = outcomes[static_cast<std::size_t>(world.rank())];
        outcome.initial = bytes_of(store.buckets(), store.masters());
        gradients.zero();
        const Tape::GradientHooks hooks = gradients.hooks(true);
        for (auto p = pointers.rbegin(); p != pointers.rend(); ++p) {
            if (hooks.before) hooks.before(**p);
            dispatch_float((*p)->gradient.dtype(), [&]<class T>(T) {
                if constexpr (!std::is_same_v<T, bf16>)
                    for_each_element<T>((*p)->gradient, [&](std::int64_t index, T& element) {
                        element = static_cast<T>(term(engine, **p, index));
                    });
            });
            hooks.ready(**p);
        }
        gradients.finish();
        outcome.gradients = bytes_of(store.buckets(), gradients.reduced());
        outcome.norm = optimizer.update(gradients, 1, 0.01);
        outcome.updated = bytes_of(store.buckets(), store.masters());
        for (const Optimizer::State& state : optimizer.states())
            outcome.moments.push_back(bytes_of(store.buckets(), state.flats));
    });
    for (const Outcome& other : outcomes) EXPECT_TRUE(other == outcomes[0]) << "ranks differ";
    return outcomes[0];
}

TEST(ShardedState, HasTheBitsOfOneRankInEveryClassAndStage) {
    for (DType dtype : {DType::f64, DType::bf16}) {
        const Outcome alone = run({1, 1, 0}, dtype);
        double squares = 0;
        for (const Parameter& p : parameters_on(mesh_on({1, 1, 0})))
            for (std::int64_t i = 0; i < p.shape.elements(); ++i)
                squares += static_cast<double>(number(p.name, i, 0) * number(p.name, i, 0));
        EXPECT_EQ(alone.norm, std::sqrt(squares));
        EXPECT_NE(alone.updated, alone.initial);
        for (int stage : {0, 1, 2, 3})
            for (const auto& [dp, tp, group] :
                 {std::tuple{2, 1, 0}, {1, 4, 0}, {2, 2, 0}, {3, 2, 0}, {2, 4, 0}, {4, 2, 2}}) {
                const Outcome outcome = run({dp, tp, stage, stage == 0 ? 0 : group}, dtype);
                const std::string where = fmt::format("dp {} tp {} stage {} in {}", dp, tp, stage, name_of(dtype));
                EXPECT_TRUE(outcome.initial == alone.initial) << "initial values, " << where;
                EXPECT_TRUE(outcome.gradients == alone.gradients) << "gradients, " << where;
                EXPECT_EQ(outcome.norm, alone.norm) << where;
                EXPECT_TRUE(outcome.updated == alone.updated) << "updated values, " << where;
                EXPECT_TRUE(outcome.moments == alone.moments) << "moments, " << where;
            }
    }
}

}  // namespace
}  // namespace cleave::sharded_state
