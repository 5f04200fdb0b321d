#include <algorithm>

#include "base/cores.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/model_job.h"
#include "cli/ranks_option.h"
#include "config/run_file.h"
#include "train/job_check.h"
#include "train/train_options.h"
#include "train/trainer.h"
#include "train/weights_source.h"

namespace cleave::cli {
namespace {

// What the mesh asks for. Where it leaves dp open: as many ranks as cores (or as teams of OMP_NUM_THREADS fit on them),
// but no more than share the batch evenly.
int default_ranks(const Job& job) {
    const std::int64_t others = std::int64_t{job.mesh.pp} * job.mesh.cp * job.mesh.tp;
    const auto in_all = [&](std::int64_t dp) { return static_cast<int>(std::min(dp * others, kMostRanks)); };
    if (job.mesh.dp != 0) return in_all(job.mesh.dp);
    const std::int64_t fit = std::max<std::int64_t>(1, available_cores() / asked_threads().value_or(1) / others);
    const std::int64_t rows =
        std::max<std::int64_t>(job.train.batch / std::max<std::int64_t>(job.train.microbatch, 1), 1);
    std::int64_t dp = std::min({fit, rows, std::int64_t{kMostThreads}});
    while (rows % dp != 0) --dp;
    return in_all(dp);
}

class TrainCommand : public Command {
  public:
    std::string name() const override { return "train"; }
    std::string summary() const override { return "train a language model on a text"; }
    std::string examples() const override {
        return "  cleave train runs/tiny.toml                   a first try, seconds\n"
               "  cleave train my.toml --set data.path=any.txt  your own text\n"
               "  cleave train my.toml --resume                 go on after Ctrl-C, same bits\n"
               "  cleave train my.toml --dry-run                memory, bytes and flops only\n"
               "The run folder (run.folder, by default out/ and the run file's name) receives\n"
               "metrics.jsonl, loss.svg, the effective configuration, checkpoints and a sample.\n"
               "`cleave config` lists what --set accepts.";
    }
    void declare(Options& options) override {
        options.positional("RUN.toml", run_file_, "the run file; `cleave init RUN.toml` writes one", true);
        options.integer("--ranks", ranks_, 1, kMostRanks,
                        "ranks, threads of this process (default: as many as cores and as share the batch evenly); "
                        "under mpirun its processes are the ranks");
        options.texts("--set", "KEY=VALUE", sets_,
                      "set a key over the run file, for instance train.steps=100; repeatable. A value is written as "
                      "in TOML, but a text needs no quotes: without them it is taken as it stands, in them it is "
                      "TOML's, without the quotes and with \\n a line break");
        options.flag("--resume", resume_, "go on from the run folder's newest checkpoint");
        options.flag("--overwrite", overwrite_, "begin anew in a run folder that exists");
        options.flag("--dry-run", dry_run_,
                     "run one step without computing: memory by kind, bytes by collective, flops");
        options.exclusive("--resume", "--overwrite");
    }

    bool runs_on_ranks() const override { return true; }
    int run() override {
        RunFile file = read_run_file(run_file_, sets_);
        const auto is_set = [&](std::string_view key) { return file.places.find(key) != file.places.end(); };
        file.add(adopt_model(file.job, is_set));
        const int ranks = chosen_ranks(ranks_, default_ranks(file.job));
        if (!dry_run_) check_threads(ranks, ranks_ == 0 ? "[mesh]" : "--ranks");
        file.add(all_problems(file, ranks));
        if (!file.problems.empty())
            throw_problems(file.problems,
                           layouts_instead(file, ranks, ranks_ == 0 ? RanksFrom::mesh : RanksFrom::given, ranks_ == 0));
        TrainOptions options;
        options.job = file.job;
        options.ranks = ranks;
        options.resume = resume_;
        options.overwrite = overwrite_;
        options.dry_run = dry_run_;
        options.json = json;
        options.config_text = effective_run_file(file.job);
        return run_training(options);
    }

  private:
    // Training reads the text once, later; where there are problems anyway, those of the text are told with them.
    static std::vector<std::string> all_problems(RunFile& file, int ranks) {
        std::vector<std::string> problems = check(file.job, ranks);
        if ((problems.empty() && file.problems.empty()) || !data_problems(file.job.data).empty()) return problems;
        try {
            const Dataset dataset = Dataset::open(file.job.data, std::nullopt);
            if (file.job.model.vocabulary == 0) file.job.model.vocabulary = dataset.tokenizer().vocabulary();
            return check(file.job, ranks, &dataset);
        } catch (const UserError& error) {
            problems.emplace_back(error.what());
        }
        return problems;
    }

    std::string run_file_;
    std::int64_t ranks_ = 0;
    std::vector<std::string> sets_;
    bool resume_ = false;
    bool overwrite_ = false;
    bool dry_run_ = false;
};

}  // namespace

std::unique_ptr<Command> make_train_command() {
    return std::make_unique<TrainCommand>();
}

}  // namespace cleave::cli
