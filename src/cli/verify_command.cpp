#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/dtype_option.h"
#include "cli/model_job.h"
#include "cli/ranks_option.h"
#include "train/dry_run_report.h"
#include "train/memory_check.h"
#include "train/shrink.h"
#include "train/verify.h"

namespace cleave::cli {
namespace {

constexpr std::size_t kShownTensors = 5;

// What one rank in f64 takes, with the tensors that are brought home of three runs.
std::int64_t bytes_on_one_rank(const Job& job) {
    Job one = on_one_rank(job);
    one.train.dtype = DType::f64;
    const RankPlan plan = memory_plan(one, 1, comm::TransportKind::inproc, 1);
    const std::int64_t parameters = plan.at_peak[static_cast<std::size_t>(MemoryKind::parameters)];
    return plan.extent_bytes + 6 * parameters;
}

Json verify_document(const VerifyReport& r, int ranks, const std::string& shrunk) {
    Json tensors = Json::array();
    for (const TensorVerdict& t : r.tensors)
        tensors.push(Json{{"name", t.name},
                          {"gradient_distance", t.gradient},
                          {"gradient_bound", t.gradient_bound},
                          {"one_rank_distance", t.own},
                          {"parameter_distance", t.parameter},
                          {"equal", t.equal}});
    Json json{{"equal", r.equal()}, {"ranks", ranks}, {"dtype", name_of(r.job.train.dtype)}};
    json.set("first_difference", r.first_difference).set("shrunk", shrunk);
    Json losses = Json::array(), one_losses = Json::array();
    for (const double loss : r.many.losses) losses.push(loss);
    for (const double loss : r.one.losses) one_losses.push(loss);
    json.set("losses", std::move(losses)).set("one_rank_losses", std::move(one_losses));
    json.set("loss_distance", r.loss_difference).set("norm_distance", r.norm_difference);
    json.set("loss_bound", r.loss_bound).set("tensors", std::move(tensors));
    return json;
}

void print_tensor(const TensorVerdict& t, bool judged_parameters) {
    fmt::print("  {:9.1e} of {:7.1e} {:9.1e}{}  {}{}\n", t.gradient, t.gradient_bound, t.parameter,
               judged_parameters ? "" : " *", t.name, t.equal ? "" : "   DIFFERS");
}

void print_report(const VerifyReport& r, int ranks) {
    fmt::print("{:>12} {:>16} {:>16} {:>12} {:>12}\n", "step", "loss, 1 rank", counted(ranks, "rank"), "norm, 1 rank",
               counted(ranks, "rank"));
    for (std::size_t s = 0; s < r.one.losses.size(); ++s)
        fmt::print("{:>12} {:>16.12f} {:>16.12f} {:>12.8f} {:>12.8f}\n", s + 1, r.one.losses[s], r.many.losses[s],
                   r.one.norms[s], r.many.norms[s]);
    fmt::print("largest relative difference: loss {:.1e}, norm {:.1e}, of {:.1e}\n\n", r.loss_difference,
               r.norm_difference, r.loss_bound);
    std::vector<TensorVerdict> worst = r.tensors;
    std::stable_sort(worst.begin(), worst.end(), [](const TensorVerdict& a, const TensorVerdict& b) {
        return a.gradient / a.gradient_bound > b.gradient / b.gradient_bound;
    });
    worst.resize(std::min(worst.size(), kShownTensors));
    const bool judged = r.parameter_bound.has_value();
    fmt::print("gradient difference, of what is allowed, and parameter difference after {}{};\nthe {} of {}\n",
               counted(r.one.losses.size(), "step"),
               judged ? fmt::format(" (of {:.0e})", *r.parameter_bound) : " (* reported, not judged)",
               counted(worst.size(), "worst", "worst"), counted(r.tensors.size(), "tensor"));
    for (const TensorVerdict& t : worst) print_tensor(t, judged);
    if (r.equal())
        fmt::print("\nequal: {} {} this model as one rank does\n", counted(ranks, "rank"),
                   ranks == 1 ? "trains" : "train");
    else
        fmt::print(
            "\nDIFFERS: the first that does is {}\nIf it grows with the steps alone, the job may amplify roundings: "
            "--steps 1 compares "
            "the first.\n",
            r.first_difference);
}

class VerifyCommand : public Command {
  public:
    std::string name() const override { return "verify"; }
    std::string summary() const override { return "proves that a layout trains as one rank does"; }
    std::string examples() const override {
        return "  cleave verify my.toml --ranks 4\n"
               "  cleave verify gpt2-124m --ranks 8 --set mesh.tp=4 --set sequence_parallel=true\n"
               "Runs the first steps of the job on one rank and on its layout, on random tokens,\n"
               "and compares the loss, the raw gradient of every parameter, their norm and every\n"
               "parameter after the last step. Ends with 1 where they differ, naming the first\n"
               "tensor that does. Where the model does not fit on one rank, width, depth,\n"
               "vocabulary and context become the smallest that the layout divides in the same\n"
               "way, and the output says so.";
    }
    void declare(Options& options) override {
        options.positional("RUN.toml", model_, "a run file, or a model by name", true);
        options.integer("--ranks", ranks_, 1, kMostThreads,
                        "ranks of the layout, threads of this process (default: 2)");
        options.text("--dtype", "f64|f32|bf16", dtype_, "compute in it (default: f64, whose bound is 1e-12)");
        options.integer("--steps", steps_, 1, 1000, "optimizer steps (default: 3)");
        options.text("--shrink", "auto|always|never", shrink_,
                     "a smaller model of the same layout (default: auto, where one rank has not the memory)");
        options.texts("--set", "KEY=VALUE", sets_, "change a key of the run file; may be repeated");
    }

    int run() override {
        if (shrink_ != "auto" && shrink_ != "always" && shrink_ != "never")
            throw UserError("--shrink: found '{}'; accepted: auto, always, never", shrink_);
        const int ranks = ranks_ == 0 ? 2 : static_cast<int>(ranks_);
        VerifyOptions options;
        options.ranks = ranks;
        options.dtype = compute_dtype(dtype_).value_or(DType::f64);
        options.steps = static_cast<int>(steps_);
        options.progress = [](const std::string& what) { log_info("{}", what); };
        const Job whole = model_job({.model = model_, .sets = sets_, .ranks = ranks, .vocabulary = kSomeVocabulary});
        const Job job = chosen(whole, ranks);
        const std::string smaller = shrinkage(whole, job);
        if (!smaller.empty()) log_info("a smaller model of the same layout: {}", smaller);
        const VerifyReport report = verify(job, options);
        if (json)
            fmt::print("{}\n", verify_document(report, ranks, smaller).dump(2));
        else
            print_report(report, ranks);
        return report.equal() ? kExitOk : kExitNo;
    }

  private:
    Job chosen(const Job& job, int ranks) const {
        if (shrink_ == "always") return shrunk(job, ranks);
        const AvailableMemory available = available_memory();
        const std::int64_t bytes = bytes_on_one_rank(job);
        if (available.bytes == 0 || bytes <= available.bytes) return job;
        if (shrink_ == "never")
            throw UserError(
                "--shrink: found never, but one rank in f64 takes {}, and {} are available ({}); accepted: "
                "auto, a smaller model of the same layout",
                bytes_text(bytes), bytes_text(available.bytes), available.limit);
        return shrunk(job, ranks);
    }

    std::string model_;
    std::int64_t ranks_ = 0;
    std::string dtype_;
    std::int64_t steps_ = 3;
    std::string shrink_ = "auto";
    std::vector<std::string> sets_;
};

}  // namespace

std::unique_ptr<Command> make_verify_command() {
    return std::make_unique<VerifyCommand>();
}

}  // namespace cleave::cli
