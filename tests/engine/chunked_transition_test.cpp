// Transitions in chunks beside products: what is on its way while what runs, and that chunks change no bit.
#include "engine/chunked_transition.h"

#include <gtest/gtest.h>

#include <cstring>

#include "engine/functions.h"
#include "engine/virtual_engine.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "ranks.h"

namespace cleave::chunks {
namespace {

constexpr std::int64_t kRows = 4, kTokens = 6, kWidth = 8, kHidden = 12;
constexpr int kChunks = 4;
constexpr AxisId kTp = 0;

const Mesh& two_ranks() {
    static const Mesh mesh({{"tp", 2}});
    return mesh;
}

double number(std::int64_t index, int salt) {
    return static_cast<double>((index * 7919 + salt * 104729) % 101 - 50) / 50;
}

Parameter weight_on(Engine& engine, const std::string& name, const Shape& shape, const Layout& layout) {
    Parameter weight;
    weight.name = name;
    weight.shape = shape;
    weight.layout = layout;
    weight.value = engine.alloc(name, shape, layout, DType::f64, MemoryKind::parameters);
    weight.gradient = engine.alloc(name + " gradient", shape, layout.dual(), DType::f64, MemoryKind::gradients);
    return weight;
}

// Two matrices cut by outputs read x, one cut by inputs sums up: forward and backward of a branch.
void run_branch(Engine& engine, const Layout& stream, bool again) {
    Parameter gate = weight_on(engine, "gate", {kWidth, kHidden}, {{kTp, S(1)}});
    Parameter up = weight_on(engine, "up", {kWidth, kHidden}, {{kTp, S(1)}});
    Parameter down = weight_on(engine, "down", {kHidden, kWidth}, {{kTp, S(0)}});
    const Tensor x = engine.alloc("x", {kRows, kTokens, kWidth}, stream, DType::f64, MemoryKind::activations);
    Tape tape(engine);
    tape.watch(x);
    engine.trace().start();
    const Arriving in = transition_in_chunks(tape, x, {{kTp, R}}, kChunks, again);
    constexpr auto kForm = WeightForm::in_out;
    const Tensor a = linear(tape, in, gate, nullptr, kForm, 1, "gated");
    const Tensor b = linear(tape, in, up, nullptr, kForm, 1, "upped");
    const Tensor y = linear_to(tape, swiglu(tape, a, b, "swiglu"), down, nullptr, kForm, 1, "downed", stream, kChunks);
    engine.mark("backward");
    tape.backward_from(y, engine.alloc("dy", y.shape(), y.layout().dual(), y.dtype(), MemoryKind::activations));
}

// The events as words: ">all_gather", "<all_gather", and of kernels the name of what they make.
std::vector<std::string> words_of(const std::vector<Event>& events) {
    std::vector<std::string> words;
    for (const Event& event : events) {
        if (event.type == EventType::issue) words.push_back(">" + event.name);
        if (event.type == EventType::wait) words.push_back("<" + event.name);
        if (event.type == EventType::launch) words.push_back(event.detail);
        if (event.type == EventType::mark) words.push_back(event.name);
    }
    return words;
}

using Words = std::vector<std::string>;

void repeat(Words& to, int times, const Words& words) {
    for (int i = 0; i < times; ++i) to.insert(to.end(), words.begin(), words.end());
}

// All gathers start; each product of the first matrix follows its own; each sum is under way before the next product.
Words forward_words(const std::string& gather, const std::string& sum) {
    Words words;
    if (!gather.empty()) {
        repeat(words, kChunks, {">" + gather});
        repeat(words, kChunks, {"<" + gather, "gated"});
    } else {
        words.push_back("gated");
    }
    repeat(words, 1, {"upped", "swiglu"});
    repeat(words, kChunks, {"downed", ">" + sum});
    repeat(words, kChunks, {"<" + sum});
    return words;
}

// The duals: dy comes in chunks, each for its rows of the gradient; the first matrix's part of dx, which is the last to
// be added, goes out in chunks, beside the weight's gradient.
Words backward_words(const std::string& gather, const std::string& sum, bool again) {
    Words words{"backward"};
    if (!gather.empty()) {
        repeat(words, kChunks, {">" + gather});
        repeat(words, kChunks, {"<" + gather, "swiglu"});
    } else {
        words.push_back("swiglu");
    }
    repeat(words, 1, {"down gradient", "gated, upped", "x"});
    if (again) {
        repeat(words, kChunks, {">all_gather"});
        repeat(words, kChunks, {"<all_gather"});
    }
    words.push_back("up gradient");
    repeat(words, kChunks, {"x", "x", ">" + sum});
    words.push_back("gate gradient");
    repeat(words, kChunks, {"<" + sum});
    return words;
}

void expect_order(const Layout& stream, bool again, Words expected, const Words& backward) {
    VirtualEngine engine(two_ranks(), 1, comm::TransportKind::inproc, 1);
    run_branch(engine, stream, again);
    expected.insert(expected.end(), backward.begin(), backward.end());
    EXPECT_EQ(words_of(engine.trace().events()), expected);
}

TEST(ChunkedTransition, SequenceParallelChunksTravelBesideProducts) {
    for (bool again : {false, true})
        expect_order({{kTp, S(1)}}, again, forward_words("all_gather", "reduce_scatter"),
                     backward_words("all_gather", "reduce_scatter", again));
}

TEST(ChunkedTransition, TensorParallelSumsTravelBesideProducts) {
    expect_order({}, false, forward_words("", "all_reduce"), backward_words("", "all_reduce", false));
}

// Chunks of one sequence lie in memory as they are sent: no buffer is made for them.
TEST(ChunkedTransition, OfSingleSequencesNeedsNoBuffers) {
    VirtualEngine engine(two_ranks(), 0, comm::TransportKind::inproc, 1);
    run_branch(engine, {{kTp, S(1)}}, true);
    EXPECT_EQ(engine.ledger().peak_by_kind()[static_cast<std::size_t>(MemoryKind::communication)], 0);
}

// Rows are there, and right, when their chunk has come; a chunk's number of rows need not divide theirs.
TEST(ChunkedTransition, BringsWhatTheWholeOneBrings) {
    const Mesh mesh({{"dp", 2}, {"tp", 2}});
    const Layout rows{{0, S(0)}};
    test::on_ranks(mesh, [&](CpuEngine& engine) {
        const Tensor cut =
            test::tensor_from(engine, {6, 5, 2}, rows.with(1, S(1)), [](auto i) { return number(i, 1); });
        const Tensor terms = test::tensor_from(engine, {6, 5, 2}, rows.with(1, P), [](auto i) { return number(i, 2); });
        for (const auto& [from, to] : {std::pair{cut, rows.with(1, R)}, {terms, rows.with(1, S(1))}, {terms, rows}}) {
            const Tensor whole = engine.transition(from, to);
            const Tensor input = engine.create(kernels::Cast{}, {from}, {"copy", from.shape(), from.dtype()});
            ChunkedTransition chunks(engine, input, to, 2);  // of 3 rows
            ASSERT_EQ(chunks.count(), 2);
            chunks.start_all();
            const Tensor result = chunks.finish_all();
            EXPECT_EQ(result.layout(), to);
            ASSERT_EQ(result.view().bytes(), whole.view().bytes());
            EXPECT_EQ(
                std::memcmp(result.view().data, whole.view().data, static_cast<std::size_t>(whole.view().bytes())), 0);
        }
    });
}

TEST(ChunkedTransition, IsOneChunkWhereRowsAreCutAnewOrNothingTravels) {
    test::on_ranks(two_ranks(), [](CpuEngine& engine) {
        const Tensor rows = test::tensor_from(engine, {4, 2}, {{kTp, S(0)}}, [](auto i) { return number(i, 1); });
        EXPECT_EQ(ChunkedTransition(engine, rows, {{kTp, R}}, 3).count(), 1);
        EXPECT_EQ(ChunkedTransition(engine, rows, rows.layout(), 3).count(), 1);
        const Tensor same = test::tensor_from(engine, {4, 2}, {}, [](auto i) { return number(i, 1); });
        EXPECT_EQ(ChunkedTransition(engine, same, {{kTp, R}}, 3).count(), 1);
        EXPECT_EQ(ChunkedTransition(engine, same.relabelled({{kTp, P}}), {}, 9).count(), 4);
    });
}

// What the promise of equal bits rests on in f32 and bf16: rows of a product have the bits that they have in a product
// of fewer rows, in both forms that chunks use, with and without bias.
struct ProductCase {
    DType dtype;
    std::int64_t m, k, n;
    kernels::MatMul::Form form;
    bool bias;
};

void expect_equal_rows(CpuEngine& engine, const ProductCase& c) {
    constexpr std::int64_t kSequences = 4;
    const auto filled = [&](const std::string& name, const Shape& shape) {
        const Tensor t = engine.alloc(name, shape, {}, c.dtype, MemoryKind::activations);
        engine.launch(kernels::FillNormal{9, name, 1}, {t}, {t});
        return t;
    };
    const bool nn = c.form == kernels::MatMul::Form::nn;
    const Tensor x = filled("x", {kSequences, c.m / kSequences, c.k});
    const Tensor w = filled("w", nn ? Shape{c.k, c.n} : Shape{c.n, c.k});
    const Tensor b = filled("b", {c.n});
    const Shape shape{kSequences, c.m / kSequences, c.n};
    const auto multiply = [&](const Tensor& in, const Tensor& out) {
        const kernels::MatMul product(c.form, 1, c.bias);
        if (c.bias)
            engine.launch(product, {in, w, b}, {out});
        else
            engine.launch(product, {in, w}, {out});
    };
    const Tensor whole = engine.alloc("y", shape, {}, c.dtype, MemoryKind::activations);
    const Tensor parts = engine.alloc("y", shape, {}, c.dtype, MemoryKind::activations);
    multiply(x, whole);
    for (int count : {2, 3, 4}) {
        for (int i = 0; i < count; ++i) {
            const Range rows = cut(kSequences, i, count);
            multiply(engine.local_rows(x, rows), engine.local_rows(parts, rows));
        }
        EXPECT_EQ(std::memcmp(whole.view().data, parts.view().data, static_cast<std::size_t>(whole.view().bytes())), 0)
            << name_of(c.dtype) << " " << c.m << " x " << c.k << " x " << c.n << " in " << count << (nn ? " nn" : " nt")
            << (c.bias ? " with bias" : "") << ", " << engine.team() << " threads";
    }
}

TEST(ChunkedTransition, RowsOfAProductHaveTheBitsOfTheWhole) {
    comm::run_ranks({}, [](comm::Communicator& world) {
        const Mesh mesh({{"dp", 1}});
        for (int team : {1, 2}) {
            CpuEngine engine(mesh, world, team);
            for (DType dtype : {DType::f64, DType::f32, DType::bf16})
                for (const auto& [m, k, n] : {std::tuple{256, 768, 384}, {96, 100, 52}, {36, 29, 16}, {512, 64, 300}})
                    for (auto form : {kernels::MatMul::Form::nn, kernels::MatMul::Form::nt})
                        for (bool bias : {false, true}) expect_equal_rows(engine, {dtype, m, k, n, form, bias});
        }
    });
}

}  // namespace
}  // namespace cleave::chunks
