// A training step of runs/shakespeare-char.toml against the time that its matrix products alone take, on the same ranks
// and threads: what `cleave bench step` measures (train/step_measure.h), for several dtypes and numbers of ranks.
//
//   step_bench [MODEL|RUN.toml]   f32 and bf16, 1 rank with a thread for each core and 2 ranks that share the cores
#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/cores.h"
#include "base/error.h"
#include "config/models.h"
#include "train/job_check.h"
#include "train/step_measure.h"

namespace {

using namespace cleave;

constexpr int kRounds = 9;
constexpr std::int64_t kVocabulary = 65;  // of the text that the run file is meant for

std::string processor() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    return "an unknown processor";
}

int run(int argc, char** argv) {
    const RunFile file = read_model_or_run_file(argc > 1 ? argv[1] : "runs/shakespeare-char.toml", {});
    throw_problems(file.problems);
    Job job = file.job;
    if (job.model.vocabulary == 0) job.model.vocabulary = kVocabulary;
    const int cores = std::max(2, available_cores());
    fmt::print("{}, {} cores; medians of {} rounds\n", processor(), cores, kRounds);
    fmt::print("{:>6} {:>6} {:>8} {:>10} {:>12} {:>16} {:>24}\n", "dtype", "ranks", "threads", "step ms", "products ms",
               "roofline ratio", "speed (f32, 1 rank = 1)");
    double reference = 0;
    for (const DType dtype : {DType::f32, DType::bf16})
        for (const int ranks : {1, 2}) {
            job.train.dtype = dtype;
            throw_problems(check_without_text(job, ranks));
            const StepMeasurement m =
                measure_step(job, {.ranks = ranks, .team = cores / ranks, .warmup = 3, .rounds = kRounds});
            const double step = median(m.step_seconds);
            if (reference == 0) reference = step;
            fmt::print("{:>6} {:>6} {:>8} {:>10.3f} {:>12.3f} {:>16.2f} {:>24.2f}\n", name_of(dtype), ranks,
                       cores / ranks, step * 1e3, m.product_seconds * 1e3, m.roofline_ratio(), reference / step);
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
