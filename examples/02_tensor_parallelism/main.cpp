// Tensor parallelism on a toy: square matrices with a nonlinearity between them on 4 ranks, in two forms, and the form
// that is wrong. Shows, and checks, what README.md says; the exit status is 1 where a claim fails.
//   example_02_tensor_parallelism [--width N]
#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <mutex>

#include "base/error.h"
#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "engine/functions.h"
#include "kernels/elementwise.h"

namespace cleave {
namespace {

constexpr int kRanks = 4;
constexpr int kLayers = 4;
constexpr std::int64_t kBatch = 32;

enum class Form { columns, pairs };

// What rank 0 has at the end: the loss, whole gradients, and what was sent.
struct Outcome {
    double loss = 0;
    std::vector<std::vector<double>> gradients;  // of the inputs, then of each matrix
    std::map<std::string, int> forward;          // collectives, by name
    std::map<std::string, int> backward;
    std::int64_t bytes = 0;  // sent by rank 0
};

Tensor normal(Engine& engine, const std::string& name, const Shape& shape, const Layout& layout, double deviation) {
    Tensor tensor = engine.alloc(name, shape, layout, DType::f64, MemoryKind::activations);
    engine.launch(kernels::FillNormal(1, name, deviation, 0), {tensor}, {tensor});
    return tensor;
}

// How matrix `layer` is cut. columns: all by their outputs. pairs: by outputs, then by inputs, in turn.
Layout cut_of(Form form, int layer, AxisId tp) {
    return {{tp, S(form == Form::columns || layer % 2 == 0 ? 1 : 0)}};
}

std::vector<Parameter> make_matrices(Engine& engine, Form form, std::int64_t width) {
    std::vector<Parameter> matrices(kLayers);
    for (int layer = 0; layer < kLayers; ++layer) {
        Parameter& p = matrices[static_cast<std::size_t>(layer)];
        p.name = fmt::format("matrix {}", layer);
        p.shape = {width, width};
        p.layout = cut_of(form, layer, engine.mesh().axis("tp"));
        p.value = normal(engine, p.name, p.shape, p.layout, 1 / std::sqrt(static_cast<double>(width)));
        p.gradient = engine.alloc(p.name, p.shape, p.layout.dual(), DType::f64, MemoryKind::gradients);
        engine.launch(kernels::Fill(0), {p.gradient}, {p.gradient});
    }
    return matrices;
}

// Each product reads all of x (R). By columns: the nonlinearity works on the slice, and the slices are gathered after
// every layer. In pairs: the slice is what the second matrix needs, and one sum ends the pair.
Tensor forward(Tape& tape, Form form, Tensor x, std::vector<Parameter>& matrices) {
    const AxisId tp = tape.engine().mesh().axis("tp");
    for (int layer = 0; layer < kLayers; ++layer) {
        const bool second = form == Form::pairs && layer % 2 == 1;
        if (!second) x = transition(tape, x, {{tp, R}});
        x = linear(tape, x, matrices[static_cast<std::size_t>(layer)], nullptr, WeightForm::in_out, 1, "product");
        if (second) x = transition(tape, x, {});
        if (layer < kLayers - 1) x = gelu(tape, x, "gelu");
    }
    return transition(tape, x, {});
}

std::map<std::string, int> collectives(const std::vector<Event>& events, std::int64_t& bytes) {
    std::map<std::string, int> counts;
    for (const Event& event : events) {
        if (event.type != EventType::issue) continue;
        ++counts[event.name];
        bytes += event.bytes;
    }
    return counts;
}

std::vector<double> whole(Engine& engine, const Tensor& tensor) {
    const Tensor all = engine.transition(tensor, {});
    std::vector<double> values(static_cast<std::size_t>(all.shape().elements()));
    engine.read_bytes(all, std::as_writable_bytes(std::span(values)));
    return values;
}

Outcome step(Engine& engine, Form form, std::int64_t width) {
    Outcome outcome;
    std::vector<Parameter> matrices = make_matrices(engine, form, width);
    const Tensor x = normal(engine, "inputs", {kBatch, width}, {}, 1);
    const Tensor labels = engine.alloc("labels", {kBatch}, {}, DType::i32, MemoryKind::activations);
    for (std::int64_t row = 0; row < kBatch; ++row)
        labels.view().as<std::int32_t>()[row] = static_cast<std::int32_t>(7 * row % width);
    Tape tape(engine);
    tape.watch(x);
    engine.trace().start();
    const Tensor loss = cross_entropy(tape, forward(tape, form, x, matrices), labels, 1.0 / kBatch, "loss");
    outcome.forward = collectives(engine.trace().events(), outcome.bytes);
    engine.trace().start();
    tape.backward(loss);
    outcome.backward = collectives(engine.trace().events(), outcome.bytes);
    engine.trace().stop();
    outcome.loss = engine.read(loss, 0);
    outcome.gradients.push_back(whole(engine, tape.gradient_of(x)));
    for (const Parameter& p : matrices) outcome.gradients.push_back(whole(engine, p.gradient));
    return outcome;
}

// The pair cut the other way round: first by inputs, so that each rank has a term of the sum, then the nonlinearity on
// the term. The engine refuses it (gelu is not linear); relabelling the term shows what would come out.
double rows_first_error(Engine& engine, std::int64_t width) {
    const AxisId tp = engine.mesh().axis("tp");
    Parameter matrix;
    matrix.shape = {width, width};
    matrix.layout = {{tp, S(0)}};
    matrix.value = normal(engine, "matrix 0", matrix.shape, matrix.layout, 1 / std::sqrt(static_cast<double>(width)));
    const Tensor x = normal(engine, "inputs", {kBatch, width}, {{tp, S(1)}}, 1);
    Tape tape(engine, false);
    const Tensor term = linear(tape, x, matrix, nullptr, WeightForm::in_out, 1, "term");
    const Tensor right = gelu(tape, engine.transition(term, {{tp, R}}), "gelu of the sum");
    const Tensor each = gelu(tape, term.relabelled({{tp, R}}), "gelu of the term");
    const Tensor wrong = engine.transition(each.relabelled({{tp, P}}), {{tp, R}});
    double largest = 0;
    for (std::int64_t i = 0; i < right.view().elements(); ++i)
        largest = std::max(largest, std::abs(right.view().as<double>()[i] - wrong.view().as<double>()[i]));
    return largest;
}

template <class F>
auto on_ranks(int ranks, F&& body) {
    std::invoke_result_t<F, Engine&> result{};
    const Mesh mesh({{"tp", ranks}});
    comm::LaunchOptions launch;
    launch.ranks = ranks;
    launch.transport = comm::TransportKind::inproc;
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        CpuEngine engine(mesh, world, team_size(ranks));
        auto own = body(engine);
        if (world.rank() == 0) result = std::move(own);
    });
    return result;
}

double largest_difference(const Outcome& a, const Outcome& b) {
    double largest = std::abs(a.loss - b.loss);
    for (std::size_t p = 0; p < a.gradients.size(); ++p)
        for (std::size_t i = 0; i < a.gradients[p].size(); ++i)
            largest = std::max(largest, std::abs(a.gradients[p][i] - b.gradients[p][i]));
    return largest;
}

std::string text_of(const std::map<std::string, int>& counts) {
    std::string text;
    for (const auto& [name, count] : counts) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, name);
    return text;
}

bool claim(bool holds, std::string_view text) {
    fmt::print("{}: {}\n", holds ? "holds" : "FAILS", text);
    return holds;
}

int show(std::int64_t width) {
    const auto run = [&](int ranks, Form form) {
        return on_ranks(ranks, [&](Engine& engine) { return step(engine, form, width); });
    };
    const Outcome serial = run(1, Form::columns);
    const Outcome columns = run(kRanks, Form::columns);
    const Outcome pairs = run(kRanks, Form::pairs);
    for (const auto& [name, form] : {std::pair{"by columns", &columns}, {"in pairs", &pairs}})
        fmt::print("{:10}  forward {}; backward {}; {} bytes sent by rank 0\n", name, text_of(form->forward),
                   text_of(form->backward), form->bytes);
    const double columns_off = largest_difference(serial, columns);
    const double pairs_off = largest_difference(serial, pairs);
    const double error = on_ranks(kRanks, [&](Engine& engine) { return rows_first_error(engine, width); });

    using Counts = std::map<std::string, int>;
    bool all = claim(columns_off < 1e-12, fmt::format("by columns equals serial (within {:.1e})", columns_off));
    all &= claim(pairs_off < 1e-12, fmt::format("in pairs equals serial (within {:.1e})", pairs_off));
    all &= claim(columns.forward == Counts{{"all_gather", kLayers}}, "by columns: one all_gather a layer");
    all &= claim(columns.backward == Counts{{"reduce_scatter", kLayers - 1}, {"all_reduce", 1}},
                 "and in backward its dual, a reduce_scatter; for the inputs, which nobody gathered, an all_reduce");
    all &= claim(pairs.forward == Counts{{"all_reduce", kLayers / 2}}, "in pairs: one all_reduce a pair");
    all &= claim(pairs.backward == Counts{{"all_reduce", kLayers / 2}}, "and in backward as many");
    all &=
        claim(error > 0.1, fmt::format("rows first, without a sum before the nonlinearity, is wrong by {:.2f}", error));
    return all ? 0 : 1;
}

}  // namespace
}  // namespace cleave

int main(int count, char** arguments) {
    try {
        std::int64_t width = 96;
        if (count == 3 && std::string(arguments[1]) == "--width") width = std::atoll(arguments[2]);
        if ((count != 1 && count != 3) || width < cleave::kRanks)
            throw cleave::UserError("expected --width N (at least {})", cleave::kRanks);
        return cleave::show(width);
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        return 2;
    }
}
