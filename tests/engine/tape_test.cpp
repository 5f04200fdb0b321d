// The tape: halves of a backward run together or apart, every use of a weight once, gradients that meet are added, and
// nothing is kept longer than needed. Gradients themselves are judged by tests/model against finite differences.
#include "engine/tape.h"

#include <gtest/gtest.h>

#include "engine/functions.h"
#include "kernels/elementwise.h"
#include "ranks.h"

namespace cleave {
namespace {

constexpr std::int64_t kRows = 5;
constexpr std::int64_t kWidth = 7;

const Mesh& one_rank() {
    static const Mesh mesh({{"dp", 1}});
    return mesh;
}

double wave(std::int64_t index, int salt) {
    return static_cast<double>((index * 7919 + salt * 104729) % 101 - 50) / 50;
}

// A square weight with its gradient, zeroed.
Parameter weight_on(Engine& engine, const std::string& name, int salt) {
    Parameter weight;
    weight.name = name;
    weight.shape = {kWidth, kWidth};
    weight.value = test::tensor_from(engine, weight.shape, {}, [&](std::int64_t index) { return wave(index, salt); });
    weight.gradient = engine.alloc(name + " gradient", weight.shape, {}, DType::f64, MemoryKind::gradients);
    engine.launch(kernels::Fill{0.0}, {weight.gradient}, {weight.gradient});
    return weight;
}

std::vector<double> values_of(const Tensor& tensor) {
    const double* data = test::data_of(tensor);
    return {data, data + tensor.view().elements()};
}

// Two layers that share the weight `twice`, then `once`, residual around the middle; a scalar at the end.
Tensor shared_weight_loss(Tape& tape, const Tensor& x, const Tensor& labels, Parameter& twice, Parameter& once) {
    const Tensor a = relu(tape, linear(tape, x, twice, nullptr, WeightForm::in_out, 1, "a"), "relu");
    const Tensor b = linear(tape, a, twice, nullptr, WeightForm::out_in, 1, "b");
    const Tensor c = linear(tape, add(tape, a, b, "a + b"), once, nullptr, WeightForm::in_out, 1, "c");
    return cross_entropy(tape, c, labels, 1.0 / kRows, "loss");
}

struct Case {
    Parameter twice, once;
    Tensor x, labels;

    explicit Case(Engine& engine)
        : twice(weight_on(engine, "twice", 1)),
          once(weight_on(engine, "once", 2)),
          x(test::tensor_from(engine, {kRows, kWidth}, {}, [](std::int64_t index) { return wave(index, 3); })),
          labels(engine.alloc("labels", {kRows}, {}, DType::i32, MemoryKind::activations)) {
        const std::vector<std::int32_t> ids{0, 3, 6, 2, 2};
        engine.write(labels, std::as_bytes(std::span(ids)));
    }
};

int products_into(const std::vector<Event>& events, const std::string& output) {
    int count = 0;
    for (const Event& event : events)
        count += event.type == EventType::launch && event.name == "matmul" && event.detail == output ? 1 : 0;
    return count;
}

TEST(Tape, AWeightUsedTwiceHasTwoWeightHalvesEachRunOnceAndIsReadyOnce) {
    test::on_ranks(one_rank(), [](CpuEngine& engine) {
        Case c(engine);
        engine.trace().start();
        Tape tape(engine);
        const Tensor loss = shared_weight_loss(tape, c.x, c.labels, c.twice, c.once);
        std::vector<std::string> ready;
        tape.backward(loss, {{}, [&](Parameter& parameter) { ready.push_back(parameter.name); }});
        EXPECT_EQ(products_into(engine.trace().events(), "twice gradient"), 2);
        EXPECT_EQ(products_into(engine.trace().events(), "once gradient"), 1);
        EXPECT_EQ(ready, (std::vector<std::string>{"once", "twice"}));
    });
}

// A hook runs between the backward of what was recorded after it and of what was recorded before; and a gradient is
// asked for before each use adds to it.
TEST(Tape, HooksRunInTheirPlace) {
    test::on_ranks(one_rank(), [](CpuEngine& engine) {
        Case c(engine);
        Tape tape(engine);
        std::vector<std::string> order;
        const auto note = [&](std::string what) { return [&order, what] { order.push_back(what); }; };
        tape.record_hook(note("last"));
        const Tensor y = linear(tape, c.x, c.once, nullptr, WeightForm::in_out, 1, "y");
        tape.record_hook(note("between"));
        const Tensor z = linear(tape, y, c.twice, nullptr, WeightForm::in_out, 1, "z");
        const Tensor loss = cross_entropy(tape, z, c.labels, 1, "loss");
        tape.record_hook(note("first"));
        tape.backward(loss, {[&](Parameter& p) { order.push_back("before " + p.name); },
                             [&](Parameter& p) { order.push_back("ready " + p.name); }});
        EXPECT_EQ(order, (std::vector<std::string>{"first", "before twice", "ready twice", "between", "before once",
                                                   "ready once", "last"}));
    });
}

TEST(Tape, HalvesRunApartGiveTheBitsOfHalvesRunTogether) {
    test::on_ranks(one_rank(), [](CpuEngine& engine) {
        Case together(engine);
        {
            Tape tape(engine);
            tape.watch(together.x);
            const Tensor loss = shared_weight_loss(tape, together.x, together.labels, together.twice, together.once);
            tape.backward(loss);
        }
        Case apart(engine);
        Tape tape(engine);
        const Tensor loss = shared_weight_loss(tape, apart.x, apart.labels, apart.twice, apart.once);
        engine.trace().start();
        tape.backward_inputs(loss);
        EXPECT_EQ(products_into(engine.trace().events(), "twice gradient"), 0) << "a weight half ran early";
        for (double value : values_of(apart.twice.gradient)) ASSERT_EQ(value, 0);
        std::vector<std::string> ready;
        engine.trace().start();
        tape.run_weight_halves({{}, [&](Parameter& parameter) { ready.push_back(parameter.name); }});
        EXPECT_EQ(products_into(engine.trace().events(), "twice gradient"), 2);
        EXPECT_EQ(engine.trace().events().size(), 3U) << "weight halves did more than their products";
        EXPECT_EQ(ready, (std::vector<std::string>{"once", "twice"}));
        EXPECT_EQ(values_of(apart.twice.gradient), values_of(together.twice.gradient));
        EXPECT_EQ(values_of(apart.once.gradient), values_of(together.once.gradient));
        engine.trace().start();
        tape.run_weight_halves();  // each has run: nothing is left
        EXPECT_TRUE(engine.trace().events().empty());
    });
}

TEST(Tape, GradientsOfSeveralUsesAreAddedWhateverOwnsThem) {
    test::on_ranks(one_rank(), [](CpuEngine& engine) {
        const Tensor x = test::tensor_from(engine, {kRows}, {}, [](std::int64_t index) { return wave(index, 4); });
        const Tensor kept = test::tensor_from(engine, {kRows}, {}, [](std::int64_t) { return 1.0; });
        Tape tape(engine);
        tape.watch(x);
        const auto make = [&](double value) {
            return test::tensor_from(engine, {kRows}, {}, [=](std::int64_t) { return value; });
        };
        tape.add_gradient(Tape::ref(x), kept);      // somebody else's
        tape.add_gradient(Tape::ref(x), kept);      // both somebody else's
        tape.add_gradient(Tape::ref(x), make(10));  // the sum's own, the new one's own
        const Tensor shared = make(100);
        tape.add_gradient(Tape::ref(x), shared);  // into the sum
        for (double value : values_of(tape.gradient_of(x))) EXPECT_EQ(value, 112);
        for (double value : values_of(kept)) EXPECT_EQ(value, 1) << "a gradient that others hold was written";
        for (double value : values_of(shared)) EXPECT_EQ(value, 100) << "a gradient that others hold was written";
    });
}

TEST(Tape, AValueOnNobodysPathGetsNoGradientAndCostsNoWork) {
    test::on_ranks(one_rank(), [](CpuEngine& engine) {
        Case c(engine);
        Tape tape(engine);
        const Tensor loss = shared_weight_loss(tape, c.x, c.labels, c.twice, c.once);
        bool ran = false;
        const Tensor unused = engine.create(kernels::Add{}, {c.x, c.x}, {"unused", c.x.shape(), c.x.dtype()});
        tape.record({unused}, [&](std::span<const Tensor>) { ran = true; });
        engine.trace().start();
        tape.backward(loss);
        EXPECT_FALSE(ran);
        // The input x was not watched: the first layer's input half computes nothing for it.
        EXPECT_EQ(products_into(engine.trace().events(), "x"), 0);
    });
}

TEST(Tape, WhatBackwardSavedGoesWithIt) {
    test::on_ranks(one_rank(), [](CpuEngine& engine) {
        Case c(engine);
        const std::int64_t before = engine.ledger().live();
        {
            Tape tape(engine);
            const Tensor loss = shared_weight_loss(tape, c.x, c.labels, c.twice, c.once);
            EXPECT_GT(engine.ledger().live(), before + loss.view().bytes());
            tape.backward(loss);
            EXPECT_EQ(engine.ledger().live(), before + loss.view().bytes()) << "the tape keeps values alive";
        }
        EXPECT_EQ(engine.ledger().live(), before);
        Tape silent(engine, false);  // evaluation: nothing is saved in the first place
        const Tensor loss = shared_weight_loss(silent, c.x, c.labels, c.twice, c.once);
        EXPECT_EQ(engine.ledger().live(), before + loss.view().bytes());
    });
}

TEST(TapeDeathTest, AGradientThatIsNotPlacedAsTheDualIsRefused) {
    const Mesh mesh({{"dp", 1}});
    EXPECT_DEATH(
        test::on_ranks(mesh,
                       [](CpuEngine& engine) {
                           const Tensor x = engine.alloc("x", {kRows}, {{0, R}}, DType::f64, MemoryKind::activations);
                           Tape tape(engine);
                           tape.watch(x);
                           tape.add_gradient(Tape::ref(x), x);  // R, where the dual is P
                       }),
        "its value's dual is");
}

TEST(TapeDeathTest, MoreUsesInBackwardThanInForwardAreRefused) {
    EXPECT_DEATH(test::on_ranks(one_rank(),
                                [](CpuEngine& engine) {
                                    Case c(engine);
                                    Tape tape(engine);
                                    const Tensor loss =
                                        engine.alloc("loss", {}, {}, DType::f64, MemoryKind::activations);
                                    tape.record({loss},
                                                [&](std::span<const Tensor>) {
                                                    tape.use(c.twice, [] {});
                                                    tape.use(c.twice, [] {});
                                                },
                                                {&c.twice});
                                    tape.backward(loss);
                                }),
                 "twice was used more often in backward than in forward");
}

}  // namespace
}  // namespace cleave
