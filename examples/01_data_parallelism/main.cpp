// Data parallelism on a toy: square matrices with ReLU between them, trained by SGD, serially and on 4 ranks that hold
// a quarter of the batch each. Shows, and checks, what README.md says; the exit status is 1 where a claim fails.
//   example_01_data_parallelism [--width N] [--steps N]      (the full size: --width 1024)
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include "base/error.h"
#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "engine/functions.h"
#include "kernels/elementwise.h"
#include "kernels/optimizer.h"
#include "parallel/data_parallel.h"
#include "parallel/gradient_buckets.h"

namespace cleave {
namespace {

constexpr int kLayers = 4;
constexpr std::int64_t kBatch = 128;
constexpr std::int64_t kClasses = 10;
constexpr double kLearningRate = 0.1;

struct Options {
    std::int64_t width = 96;
    int steps = 5;
};

// What one rank saw.
struct Outcome {
    std::vector<double> losses;  // mean over its own rows, of each step
    std::vector<std::vector<double>> parameters;
    std::vector<Event> events;  // of the last step
};

class Mlp {
  public:
    Mlp(const ModelLayouts& layouts, std::int64_t width) : parameters_(kLayers) {
        for (int layer = 0; layer < kLayers; ++layer) {
            Parameter& p = parameters_[static_cast<std::size_t>(layer)];
            p.name = fmt::format("weight {}", layer);
            p.shape = {width, width};
            p.layout = layouts.stream_parameter;
            p.initial_deviation = std::sqrt(2.0 / static_cast<double>(width));
        }
    }

    Tensor loss(Tape& tape, Tensor x, const Tensor& labels) {
        for (Parameter& weight : parameters_) {
            x = linear(tape, x, weight, nullptr, WeightForm::in_out, 1, "product");
            if (&weight != &parameters_.back()) x = relu(tape, x, "relu");
        }
        return cross_entropy(tape, x, labels, 1.0 / static_cast<double>(kBatch), "loss");
    }

    std::vector<Parameter*> parameters() {
        std::vector<Parameter*> all;
        for (Parameter& p : parameters_) all.push_back(&p);
        return all;
    }

  private:
    std::vector<Parameter> parameters_;
};

// Each rank makes only its own rows, from their global index.
struct Batch {
    Tensor inputs;
    Tensor labels;
};

Batch own_rows(Engine& engine, const ModelLayouts& layouts, std::int64_t width, int step) {
    Batch batch;
    batch.inputs = engine.alloc("inputs", {kBatch, width}, layouts.stream, DType::f64, MemoryKind::activations);
    batch.labels = engine.alloc("labels", {kBatch}, layouts.tokens, DType::i32, MemoryKind::activations);
    engine.launch(kernels::FillNormal(2, fmt::format("inputs {}", step), 1, 0), {batch.inputs}, {batch.inputs});
    // Something to learn: which of a row's first numbers is the largest.
    const auto* inputs = static_cast<const double*>(batch.inputs.view().data);
    std::vector<std::int32_t> labels;
    for (std::int64_t row = 0; row < batch.labels.view().elements(); ++row) {
        const double* first = inputs + row * width;
        labels.push_back(static_cast<std::int32_t>(std::max_element(first, first + kClasses) - first));
    }
    engine.write(batch.labels, std::as_bytes(std::span(labels)));
    return batch;
}

Outcome train(Engine& engine, const Options& options) {
    const ModelLayouts layouts = data_parallel_layouts(engine.mesh());
    Mlp mlp(layouts, options.width);
    const auto parameters = mlp.parameters();
    ParameterStore store(engine, parameters, DType::f64,
                         {.bucket_bytes = options.width * options.width * size_of(DType::f64)});
    store.initialize(1);
    GradientBuckets gradients(store);
    Outcome outcome;
    for (int step = 0; step < options.steps; ++step) {
        const Batch batch = own_rows(engine, layouts, options.width, step);
        engine.trace().start();
        gradients.zero();
        Tape tape(engine);
        const Tensor loss = mlp.loss(tape, batch.inputs, batch.labels);
        // The loss is a term of the global mean: times the number of ranks it is the mean of this rank's rows.
        outcome.losses.push_back(engine.read(loss, 0) * engine.mesh().world_size());
        engine.mark("backward begins");
        tape.backward(loss, gradients.hooks(true));
        engine.mark("backward ends");
        gradients.finish();
        for (Parameter* p : parameters)
            engine.launch(kernels::Sgd(kLearningRate, 0, 1), {gradients.reduced(*p)}, {p->value});
    }
    outcome.events = engine.trace().events();
    for (const Parameter* p : parameters) {
        std::vector<double> values(static_cast<std::size_t>(p->shape.elements()));
        engine.read_bytes(p->value, std::as_writable_bytes(std::span(values)));
        outcome.parameters.push_back(std::move(values));
    }
    return outcome;
}

std::vector<Outcome> train_on(int ranks, const Options& options) {
    std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
    const Mesh mesh({{"dp", ranks}});
    comm::LaunchOptions launch;
    launch.ranks = ranks;
    launch.transport = comm::TransportKind::inproc;
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        CpuEngine engine(mesh, world, team_size(ranks));
        outcomes[static_cast<std::size_t>(world.rank())] = train(engine, options);
    });
    return outcomes;
}

double largest_difference(const Outcome& a, const Outcome& b) {
    double largest = 0;
    for (std::size_t p = 0; p < a.parameters.size(); ++p)
        for (std::size_t i = 0; i < a.parameters[p].size(); ++i)
            largest = std::max(largest, std::abs(a.parameters[p][i] - b.parameters[p][i]));
    return largest;
}

bool same_bits(const Outcome& a, const Outcome& b) {
    for (std::size_t p = 0; p < a.parameters.size(); ++p)
        if (std::memcmp(a.parameters[p].data(), b.parameters[p].data(), a.parameters[p].size() * sizeof(double)) != 0)
            return false;
    return true;
}

// Prints the events from the beginning of backward; returns how many reductions were issued before its end with
// kernels of backward still to come.
int show_order(const std::vector<Event>& events) {
    const auto mark = [&](std::string_view name) {
        return std::find_if(events.begin(), events.end(), [&](const Event& e) { return e.name == name; });
    };
    const auto end = mark("backward ends");
    int overlapped = 0;
    for (auto event = mark("backward begins"); event != events.end(); ++event) {
        fmt::print("  {:7}{:20}{}\n", name_of(event->type), event->name, event->detail);
        const auto is_launch = [](const Event& e) { return e.type == EventType::launch; };
        if (event < end && event->type == EventType::issue) overlapped += std::any_of(event, end, is_launch);
    }
    return overlapped;
}

bool claim(bool holds, std::string_view text) {
    fmt::print("{}: {}\n", holds ? "holds" : "FAILS", text);
    return holds;
}

int show(const Options& options) {
    constexpr int kRanks = 4;
    const Outcome serial = train_on(1, options).front();
    const auto parallel = train_on(kRanks, options);
    fmt::print("loss of each rank's {} x {} rows, and of the whole batch trained serially\n", kBatch / kRanks,
               options.width);
    bool differ = false;
    double off = 0;
    for (std::size_t step = 0; step < serial.losses.size(); ++step) {
        double mean = 0;
        fmt::print("  step {}:", step);
        for (const Outcome& rank : parallel) {
            fmt::print(" {:.6f}", rank.losses[step]);
            mean += rank.losses[step] / kRanks;
            differ |= rank.losses[step] != parallel.front().losses[step];
        }
        fmt::print("   serial {:.6f}\n", serial.losses[step]);
        off = std::max(off, std::abs(mean - serial.losses[step]));
    }
    fmt::print("backward and update of the last step on rank 0\n");
    const int overlapped = show_order(parallel.front().events);
    const double difference = largest_difference(serial, parallel.front());
    bool all = claim(differ, "the ranks' losses differ");
    all &= claim(off < 1e-12, fmt::format("their mean is the serial loss (within {:.1e})", off));
    all &= claim(std::all_of(parallel.begin(), parallel.end(),
                             [&](const Outcome& rank) { return same_bits(rank, parallel.front()); }),
                 "all ranks have the same parameters, bit for bit");
    all &= claim(difference < 1e-12, fmt::format("they are those of serial training (within {:.1e})", difference));
    all &= claim(overlapped >= kLayers - 1,
                 fmt::format("{} of {} reductions were issued before backward ended", overlapped, kLayers));
    return all ? 0 : 1;
}

Options parse(int count, char** arguments) {
    Options options;
    for (int i = 1; i < count; i += 2) {
        const std::string name = arguments[i];
        const int value = i + 1 < count ? std::atoi(arguments[i + 1]) : 0;
        if ((name != "--width" && name != "--steps") || value < 1 || (name == "--width" && value < kClasses))
            throw UserError("expected --width N (at least {}) and --steps N (at least 1), found {}", kClasses, name);
        if (name == "--width")
            options.width = value;
        else
            options.steps = value;
    }
    return options;
}

}  // namespace
}  // namespace cleave

int main(int count, char** arguments) {
    try {
        return cleave::show(cleave::parse(count, arguments));
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        return 2;
    }
}
