#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "base/words.h"
#include "cli/bench_collectives.h"
#include "cli/bench_matmul.h"
#include "cli/bench_step.h"
#include "cli/command.h"
#include "cli/ranks_option.h"
#include "train/job_check.h"

namespace cleave::cli {
namespace {

// What can be measured; each takes options of its own.
enum Form : unsigned { collective = 1, matmul = 2, step = 4 };
constexpr unsigned kAll = collective | matmul | step;

Form form_of(std::string_view operation) {
    if (operation == "matmul") return matmul;
    return operation == "step" ? step : collective;
}

// recv has no measurement of its own: send measures a ring of messages, each sent and received.
comm::Operation measured_operation(std::string_view name) {
    std::string known = "step, matmul";
    std::string plain(name);
    std::replace(plain.begin(), plain.end(), '-', '_');
    for (int i = 0; i < comm::kOperations; ++i) {
        const auto operation = static_cast<comm::Operation>(i);
        if (operation == comm::Operation::recv) continue;
        if (comm::name_of(operation) == plain) return operation;
        known += fmt::format(", {}", comm::name_of(operation));
    }
    throw UserError("bench: found '{}'; accepted: {}{}", name, known,
                    plain == "recv" ? " (which measures sending and receiving)" : "");
}

std::string names_of(unsigned forms) {
    std::string text;
    const auto add = [&](Form form, std::string_view name) {
        if ((forms & form) != 0) text += fmt::format("{}{}", text.empty() ? "" : " and ", name);
    };
    add(collective, "collectives");
    add(matmul, "matmul");
    add(step, "step");
    return text;
}

class BenchCommand : public Command {
  public:
    std::string name() const override { return "bench"; }
    std::string summary() const override { return "measure a step, matrix products, collectives"; }
    std::string examples() const override {
        return "  cleave bench step gpt2-124m --batch 4 --context 256 --dtype bf16\n"
               "  cleave bench step my.toml --ranks 2\n"
               "  cleave bench matmul 1024 3072 768\n"
               "  cleave bench all_reduce --ranks 2\n"
               "  cleave bench all_reduce --elements 1e8\n"
               "  cleave bench reduce_scatter --algorithm ring --copy-bound\n"
               "  cleave bench all_to_all --ranks 4 --explain    which algorithm, why, its steps\n"
               "  mpirun -np 2 cleave bench all_reduce --transport mpi --algorithm native";
    }
    void declare(Options& options) override {
        options.positional("OP", operation_,
                           "step, matmul, or a collective: all_reduce, reduce_scatter, all_gather, broadcast, reduce, "
                           "gather, scatter, all_to_all, barrier or send",
                           true);
        options.positionals("WHAT", what_,
                            "step: a run file, or a model by name (gpt2-124m, llama-100m, ...: the files of models/); "
                            "matmul: M N K");
        given(kAll, "--dtype", dtype_);
        options.text("--dtype", "NAME", dtype_,
                     "step: f64, f32 or bf16 (default: the run's); matmul: one of these (default: all); collectives: "
                     "also i64, i32, u8 (default: f32)");
        given(kAll, "--iterations", iterations_);
        options.integer("--iterations", iterations_, 1, kMostCalls,
                        "timed calls (default: 20); step: rounds of steps and products alone (default: 5)");
        given(collective | step, "--warmup", warmup_);
        options.integer("--warmup", warmup_, 0, kMostCalls,
                        "calls before them, not timed (default: 5); step: steps (default: 1)");
        given(collective | step, "--ranks", ranks_);
        options.integer("--ranks", ranks_, 1, kMostRanks,
                        "ranks, threads of this process (default: mpirun's, or without it 2; step: 1)");
        declare_step(options);
        declare_matmul(options);
        declare_collective(options);
    }

    bool runs_on_ranks() const override { return form_of(operation_) != matmul; }
    int run() override {
        const Form form = form_of(operation_);
        std::vector<std::string> problems = misplaced(form);
        switch (form) {
            case step: return run_step(std::move(problems));
            case matmul: return run_matmul(std::move(problems));
            case collective: break;
        }
        return run_collective(problems);
    }

  private:
    static constexpr std::int64_t kMostRanks = 1 << 20;
    static constexpr std::int64_t kMostCalls = 1'000'000'000;
    static constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;
    static constexpr double kMostElements = 1e15;  // whole numbers of a double are exact up to there
    static constexpr std::int64_t kMostExtent = 1 << 24;
    static constexpr std::int64_t kUnset = -1;  // no option has it

    void declare_step(Options& options) {
        options.section("step");
        given(step, "--batch", batch_);
        options.text("--batch", "N", batch_,
                     "sequences in a step: train.batch (default: the run's; a model's name: 1)");
        given(step, "--context", context_);
        options.text("--context", "N", context_, "tokens in a sequence: model.context");
        given(step, "--set", sets_);
        options.texts("--set", "KEY=VALUE", sets_,
                      "set a key over the run file, for instance model.layers=2; repeatable");
    }
    void declare_matmul(Options& options) {
        options.section("matmul");
        given(matmul, "--form", form_);
        options.text("--form", "NAME", form_,
                     "nn, nt, tn or tt: which of a [m k] and b [k n] are stored transposed (default: nn)");
    }
    void declare_collective(Options& options) {
        options.section("Collectives");
        given(collective, "--transport", transport_);
        options.text("--transport", "NAME", transport_, "inproc or mpi (default: mpi under mpirun, else inproc)");
        given(collective, "--algorithm", algorithm_);
        options.text("--algorithm", "NAME", algorithm_,
                     "automatic, direct, tree, halving_doubling, ring, hierarchical, or native "
                     "(the MPI library's own) (default: automatic)");
        given(collective, "--min-bytes", min_bytes_);
        options.integer("--min-bytes", min_bytes_, 1, kMostBytes, "smallest message (default: 4096); sizes double");
        given(collective, "--max-bytes", max_bytes_);
        options.integer("--max-bytes", max_bytes_, 1, kMostBytes, "largest message (default: 67108864)");
        given(collective, "--elements", elements_);
        options.number("--elements", elements_, 1, kMostElements, "only this size, in elements; 1e8 is 100000000");
        given(collective, "--copy-bound", copy_bound_);
        options.flag("--copy-bound", copy_bound_, "also measure how fast all ranks copy as many bytes");
        given(collective, "--no-fingerprints", no_fingerprints_);
        options.flag("--no-fingerprints", no_fingerprints_,
                     "mpi: without the check that all ranks call the same collective");
        given(collective, "--explain", explain_);
        options.flag("--explain", explain_,
                     "name the algorithm and why it is chosen, print its steps; measure nothing");
    }

    // Notes which forms an option is for; it is given where its target is no longer what it was.
    template <class Target>
    void given(unsigned forms, const char* flag, const Target& target) {
        fits_.push_back({flag, forms, [&target, before = target] { return target != before; }});
    }

    std::vector<std::string> misplaced(Form form) const {
        std::vector<std::string> problems;
        for (const Fit& fit : fits_)
            if ((fit.forms & form) == 0 && fit.given())
                problems.push_back(
                    fmt::format("{}: found with '{}'; it is for {}", fit.flag, operation_, names_of(fit.forms)));
        if (form == collective && !what_.empty())
            problems.push_back(
                fmt::format("'{}' after '{}': a collective takes options only", what_.front(), operation_));
        return problems;
    }

    int run_step(std::vector<std::string> problems) {
        if (what_.size() != 1)
            problems.push_back(
                fmt::format("bench step: found {} after it; accepted: one, a run file or a model's "
                            "name, for instance cleave bench step gpt2-124m",
                            counted(what_.size(), "word")));
        throw_problems(problems);
        BenchStepOptions options;
        options.model = what_.front();
        const auto set = [&](const char* flag, const char* key, const std::string& value) {
            if (!value.empty()) options.flags.push_back({flag, key, value});
        };
        set("--dtype", "train.dtype", dtype_);
        set("--batch", "train.batch", batch_);
        set("--context", "model.context", context_);
        options.sets = sets_;
        if (ranks_ != kUnset) options.ranks = running_ranks();
        if (iterations_ != kUnset) options.rounds = static_cast<int>(iterations_);
        if (warmup_ != kUnset) options.warmup = static_cast<int>(warmup_);
        options.json = json;
        return bench_step(options, stdout);
    }

    int run_matmul(std::vector<std::string> problems) {
        BenchMatmulOptions options;
        const std::array extents{&options.m, &options.n, &options.k};
        if (what_.size() != extents.size())
            problems.push_back(
                fmt::format("bench matmul: found {} after it; accepted: three numbers, M N K, for "
                            "instance cleave bench matmul 1024 3072 768",
                            counted(what_.size(), "word")));
        else
            for (std::size_t i = 0; i < extents.size(); ++i)
                if (!read_extent(what_[i], *extents[i]))
                    problems.push_back(fmt::format("bench matmul: found '{}' for {}; accepted: an integer from 1 to {}",
                                                   what_[i], "MNK"[i], kMostExtent));
        if (!form_.empty() && form_ != "nn" && form_ != "nt" && form_ != "tn" && form_ != "tt")
            problems.push_back(fmt::format("--form: found '{}'; accepted: nn, nt, tn or tt", form_));
        options.form = form_;
        options.dtypes = {DType::f32, DType::bf16, DType::f64};
        if (!dtype_.empty()) options.dtypes = {dtype_from(dtype_)};
        if (!is_float(options.dtypes.front()))
            problems.push_back(fmt::format("--dtype: found '{}'; matmul accepts: f64, f32 or bf16", dtype_));
        throw_problems(problems);
        if (iterations_ != kUnset) options.rounds = static_cast<int>(iterations_);
        options.json = json;
        return bench_matmul(options, stdout);
    }

    static bool read_extent(const std::string& text, std::int64_t& extent) {
        const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), extent);
        return problem == std::errc() && end == text.data() + text.size() && extent >= 1 && extent <= kMostExtent;
    }

    int running_ranks() const {
        const int ranks = static_cast<int>(ranks_);
        check_threads(ranks, "--ranks");
        return ranks;
    }

    int run_collective(const std::vector<std::string>& problems) {
        BenchOptions options;
        options.op = measured_operation(operation_);
        throw_problems(problems);
        if (ranks_ != kUnset) options.ranks = explain_ ? static_cast<int>(ranks_) : running_ranks();
        if (!transport_.empty()) options.transport = comm::transport_from(transport_);
        if (!algorithm_.empty()) options.algorithm = comm::algorithm_from(algorithm_);
        if (!dtype_.empty()) options.dtype = dtype_from(dtype_);
        if (iterations_ != kUnset) options.iterations = static_cast<int>(iterations_);
        if (warmup_ != kUnset) options.warmup = static_cast<int>(warmup_);
        if (min_bytes_ != kUnset) options.min_bytes = min_bytes_;
        if (max_bytes_ != kUnset) options.max_bytes = max_bytes_;
        options.elements = whole(elements_);
        options.copy_bound = copy_bound_;
        options.fingerprints = !no_fingerprints_;
        options.explain = explain_;
        options.json = json;
        return bench_collective(options, stdout);
    }

    static std::int64_t whole(double elements) {
        if (elements != std::floor(elements))
            throw UserError("--elements: found {}; accepted: a whole number", elements);
        return static_cast<std::int64_t>(elements);
    }

    struct Fit {
        std::string flag;
        unsigned forms;
        std::function<bool()> given;
    };
    std::vector<Fit> fits_;

    std::string operation_;
    std::vector<std::string> what_;
    std::string dtype_;
    std::int64_t iterations_ = kUnset;
    std::int64_t warmup_ = kUnset;
    std::int64_t ranks_ = kUnset;
    // step
    std::string batch_;
    std::string context_;
    std::vector<std::string> sets_;
    // matmul
    std::string form_;
    // collectives
    std::string transport_;
    std::string algorithm_;
    std::int64_t min_bytes_ = kUnset;
    std::int64_t max_bytes_ = kUnset;
    double elements_ = 0;
    bool copy_bound_ = false;
    bool no_fingerprints_ = false;
    bool explain_ = false;
};

}  // namespace

std::unique_ptr<Command> make_bench_command() {
    return std::make_unique<BenchCommand>();
}

}  // namespace cleave::cli
