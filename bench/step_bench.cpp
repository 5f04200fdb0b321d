// A training step of runs/shakespeare-char.toml against a physical bound: the time that its matrix products alone take
// through oneDNN, same shapes, same dtype, on the same ranks and threads at once.
//
//   step_bench [RUN.toml]       f32 and bf16, 1 rank with a thread for each core and 2 ranks that share the cores
//
// Step and products alternate, a few of each at a time, so that both meet the same machine. Shown are medians of 5
// rounds, the share as the median of the rounds' shares. Attention, norms, loss, optimizer and the reduction have no
// part in the bound: the share says how much of the step they leave.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>
#include <vector>

#include "buffer.h"
#include "comm/launch.h"
#include "config/run_file.h"
#include "engine/cpu_engine.h"
#include "kernels/gemm.h"
#include "train/dry_run.h"
#include "train/job_check.h"
#include "train/schedule.h"
#include "train/step.h"

namespace {

using namespace cleave;
using kernels::Gemm;

constexpr int kRounds = 5;
constexpr int kTurns = 10;  // of a round
constexpr int kStepsATurn = 3;
constexpr std::int64_t kVocabulary = 65;  // of the text that the run file is meant for

double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

// --- The bound.

// Forward, gradient of the input and gradient of the weight of one dense layer of GPT-2: y [t n] = x [t k] w [k n].
// With `transposed` the weight lies as [n k].
void add_layer(std::vector<Gemm>& products, std::int64_t t, std::int64_t k, std::int64_t n, bool bias, bool transposed,
               DType dtype) {
    products.push_back(
        {.m = t, .n = n, .k = k, .b_transposed = transposed, .bias = bias, .input = dtype, .output = dtype});
    products.push_back({.m = t, .n = k, .k = n, .b_transposed = !transposed, .input = dtype, .output = dtype});
    Gemm weight{.m = k,
                .n = n,
                .k = t,
                .a_transposed = true,
                .accumulate = true,
                .input = dtype,
                .output = accumulator_of(dtype)};
    if (transposed) std::swap(weight.m, weight.n);
    products.push_back(weight);
}

std::vector<Gemm> products_of_a_step(const ModelConfig& m, std::int64_t tokens, DType dtype) {
    std::vector<Gemm> products;
    for (std::int64_t layer = 0; layer < m.layers; ++layer) {
        add_layer(products, tokens, m.width, 3 * m.width, true, false, dtype);
        add_layer(products, tokens, m.width, m.width, true, false, dtype);
        add_layer(products, tokens, m.width, m.hidden_mlp(), true, false, dtype);
        add_layer(products, tokens, m.hidden_mlp(), m.width, true, false, dtype);
    }
    add_layer(products, tokens, m.width, m.vocabulary, false, true, dtype);
    return products;
}

double flops_of(const std::vector<Gemm>& products) {
    double flops = 0;
    for (const Gemm& g : products)
        flops += 2 * static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
    return flops;
}

using bench::buffer;
using bench::Buffer;

// The products with operands of their own, as many bytes as the step has.
class Products {
  public:
    explicit Products(const std::vector<Gemm>& products) {
        for (const Gemm& g : products)
            all_.push_back({g, buffer(g.m * g.k * size_of(g.input)), buffer(g.k * g.n * size_of(g.input)),
                            buffer(g.n * size_of(g.input)), buffer(g.m * g.n * size_of(g.output)),
                            buffer(kernels::onednn_workspace_bytes(g))});
    }
    void run() const {
        for (const One& p : all_)
            kernels::onednn_gemm(p.gemm, {p.a.get(), p.b.get(), p.gemm.bias ? p.bias.get() : nullptr, p.y.get()},
                                 p.workspace.get());
    }

  private:
    struct One {
        Gemm gemm;
        Buffer a, b, bias, y, workspace;
    };
    std::vector<One> all_;
};

// --- The step.

Samples random_rows(std::int64_t rows, std::int64_t context) {
    Samples samples;
    for (std::int64_t i = 0; i < rows * context; ++i) {
        samples.tokens.push_back(static_cast<std::int32_t>(i * i % kVocabulary));
        samples.labels.push_back(static_cast<std::int32_t>(i * 7 % kVocabulary));
    }
    return samples;
}

double traced_product_flops(Engine& engine, const std::function<void()>& step) {
    engine.trace().start();
    step();
    engine.trace().stop();
    double flops = 0;
    for (const Event& event : engine.trace().events())
        if (event.type == EventType::launch && event.name == "matmul") flops += event.flops;
    return flops;
}

struct Times {
    std::vector<double> step, products, share;
};

Times measure(Job job, int ranks, int team) {
    const Mesh mesh = mesh_of(job, ranks);
    const std::int64_t rows = job.train.batch / ranks;
    Times times;
    comm::LaunchOptions launch;
    launch.ranks = ranks;
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        CpuEngine engine(mesh, world, team);
        Transformer model(engine, job.model, data_parallel_layouts(mesh), job.train.dtype);
        model.initialize(1);
        TrainStep step(engine, model, job);
        const std::vector<Samples> microbatches{random_rows(rows, job.model.context)};
        std::int64_t done = 0;
        const auto run_step = [&] {
            ++done;
            step.run(microbatches, done, learning_rate(job.train, done - 1));
        };
        const auto shapes = products_of_a_step(job.model, rows * job.model.context, job.train.dtype);
        CLEAVE_CHECK(flops_of(shapes) == traced_product_flops(engine, run_step),
                     "the bound has other products than the step");
        const Products products(shapes);
        const auto timed = [&](const auto& act) {
            world.barrier().wait();
            const double begin = seconds();
            for (int i = 0; i < kStepsATurn; ++i) act();
            world.barrier().wait();
            return (seconds() - begin) / (kTurns * kStepsATurn);
        };
        for (int round = -1; round < kRounds; ++round) {  // the first is a warm-up
            double of_step = 0;
            double of_products = 0;
            for (int turn = 0; turn < kTurns; ++turn) {
                of_step += timed(run_step);
                of_products += timed([&] { products.run(); });
            }
            if (world.rank() != 0 || round < 0) continue;
            times.step.push_back(of_step);
            times.products.push_back(of_products);
            times.share.push_back(of_products / of_step);
        }
    });
    return times;
}

std::string processor() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    return "an unknown processor";
}

int run(int argc, char** argv) {
    const RunFile file = read_run_file(argc > 1 ? argv[1] : "runs/shakespeare-char.toml", {});
    throw_problems(file.problems);
    Job job = file.job;
    if (job.model.family != Family::gpt2 || !job.model.tied_embeddings)
        throw UserError("the bound is written for GPT-2 with tied embeddings");
    if (job.model.vocabulary == 0) job.model.vocabulary = kVocabulary;
    const int cores = static_cast<int>(std::max(2U, std::thread::hardware_concurrency()));
    fmt::print("{}, {} cores; medians of {} rounds of {} steps\n", processor(), cores, kRounds, kTurns * kStepsATurn);
    fmt::print("{:>6} {:>6} {:>8} {:>10} {:>12} {:>16} {:>24}\n", "dtype", "ranks", "threads", "step ms", "products ms",
               "products / step", "speed (f32, 1 rank = 1)");
    double reference = 0;
    for (const DType dtype : {DType::f32, DType::bf16})
        for (const int ranks : {1, 2}) {
            job.train.dtype = dtype;
            const Times times = measure(job, ranks, cores / ranks);
            const double step = median(times.step);
            if (reference == 0) reference = step;
            fmt::print("{:>6} {:>6} {:>8} {:>10.3f} {:>12.3f} {:>16.2f} {:>24.2f}\n", name_of(dtype), ranks,
                       cores / ranks, step * 1e3, median(times.products) * 1e3, median(times.share), reference / step);
            std::fflush(stdout);
        }
    return kExitOk;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        return kExitUserError;
    }
}
