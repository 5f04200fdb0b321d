#include "train/job_check.h"

#include <algorithm>

#include "base/error.h"
#include "base/words.h"
#include "parallel/tensor_parallel.h"
#include "train/job_keys.h"
#include "train/model_check.h"
#include "train/pipeline_check.h"

namespace cleave {
namespace {

class Checker {
  public:
    Checker(const Job& job, int ranks, const Dataset* dataset) : job_(job), ranks_(ranks), dataset_(dataset) {}

    std::vector<std::string> run() {
        if (!check_step()) return std::move(problems_);
        if (dataset_ != nullptr)
            check_text();
        else
            for (std::string& problem : data_problems(job_.data)) problems_.push_back(std::move(problem));
        return std::move(problems_);
    }

    std::vector<std::string> run_layout() {
        check_step();
        return std::move(problems_);
    }

    std::vector<std::string> run_without_text() {
        if (check_step() && job_.model.vocabulary == 0)
            add("model.vocabulary: found 0, and there is no text whose tokens could be counted; accepted: at least 1, "
                "for instance --set model.vocabulary=50257");
        return std::move(problems_);
    }

  private:
    // False where numbers are out of range: the rest divides and multiplies them.
    bool check_step() {
        check_ranges();
        if (!problems_.empty()) return false;
        for (std::string& problem : check_model(job_.model)) problems_.push_back(std::move(problem));
        check_mesh();
        check_schedule();
        return true;
    }

    template <class... Args>
    void add(fmt::format_string<Args...> format, Args&&... args) {
        problems_.push_back(fmt::format(format, std::forward<Args>(args)...));
    }

    void check_ranges() {
        Job copy = job_;
        for (const Key& key : keys_of(copy))
            if (const auto problem = range_problem(key)) add("{}: {}", key.name, *problem);
    }

    void check_mesh() {
        const Job::Mesh& mesh = job_.mesh;
        const auto only_one = [&](std::string_view axis, int size) {
            if (size != 1)
                add("mesh.{}: found {}; accepted: 1. Not supported yet by this version: ranks along {}; data "
                    "(mesh.dp), "
                    "tensor (mesh.tp) and pipeline parallelism (mesh.pp) are",
                    axis, size, axis);
        };
        only_one("cp", mesh.cp);
        check_tensor_parallelism();
        const std::int64_t others = std::int64_t{mesh.pp} * mesh.cp * mesh.tp;
        if (mesh.cp == 1) check_ranks(mesh, others);
        const int dp = mesh.dp != 0
                           ? mesh.dp
                           : static_cast<int>(std::max<std::int64_t>(1, ranks_ / (std::int64_t{mesh.pp} * mesh.tp)));
        // The batch too is judged at once, for the dp that was asked for, or else all ranks.
        check_batch(dp);
        check_zero(dp);
        if (problems_.empty())
            for (std::string& problem : check_pipeline(job_, dp)) problems_.push_back(std::move(problem));
    }

    // `others`: the ranks of one along dp.
    void check_ranks(const Job::Mesh& mesh, std::int64_t others) {
        const std::string with = (mesh.tp == 1 ? "" : fmt::format(" with mesh.tp = {}", mesh.tp)) +
                                 (mesh.pp == 1 ? "" : fmt::format(" and mesh.pp = {}", mesh.pp));
        if (mesh.dp == 0 && ranks_ % others != 0 && mesh.pp == 1)
            add("mesh.tp: found {}, which does not divide the run's {}; nearest that do: {}, or --ranks {}", mesh.tp,
                counted(ranks_, "rank"), nearest_divisors(mesh.tp, ranks_), nearest_multiples(ranks_, mesh.tp));
        else if (mesh.dp == 0 && ranks_ % others != 0)
            add("mesh.pp: found {}{}, which together do not divide the run's {}; accepted: --ranks {}", mesh.pp,
                mesh.tp == 1 ? "" : fmt::format(" with mesh.tp = {}", mesh.tp), counted(ranks_, "rank"),
                nearest_multiples(ranks_, others));
        else if (mesh.dp != 0 && mesh.dp * others != ranks_)
            add("mesh.dp: found {}{}, but the run has {}; accepted: {}0, which fills the ranks (or --ranks {})",
                mesh.dp, with, counted(ranks_, "rank"),
                ranks_ % others == 0 ? fmt::format("{}, or ", ranks_ / others) : "", mesh.dp * others);
    }

    void check_tensor_parallelism() {
        const ModelConfig& m = job_.model;
        const int tp = job_.mesh.tp;
        if (job_.sequence_parallel && tp == 1)
            add("sequence_parallel: found true with mesh.tp = 1, where there is nothing to cut a sequence over; "
                "accepted: false, or a mesh.tp of at least 2");
        if (job_.sequence_parallel_inputs == SequenceInputs::kept && !job_.sequence_parallel)
            add("sequence_parallel_inputs: found \"kept\" without sequence_parallel, where nothing is gathered; "
                "accepted: \"gathered\", or sequence_parallel = true");
        if (job_.tensor_parallel_chunks > 1 && tp == 1)
            add("tensor_parallel_chunks: found {} with mesh.tp = 1, where nothing travels; accepted: 1, or a mesh.tp "
                "of "
                "at least 2",
                job_.tensor_parallel_chunks);
        if (tp == 1 || m.heads % m.key_value_heads() != 0) return;
        if (cut_heads(tp, m.key_value_heads(), m.query_group()).groups == 0) {
            const auto cuts = [&](int n) { return cut_heads(n, m.key_value_heads(), m.query_group()).groups != 0; };
            int below = std::min<int>(tp, static_cast<int>(m.heads));
            while (!cuts(below)) --below;  // 1 does
            int above = tp;
            while (above < m.heads && !cuts(above)) ++above;
            add("mesh.tp: found {}, over which model.heads = {}{} cannot be cut evenly; nearest that can: {}{}", tp,
                m.heads, m.query_group() == 1 ? "" : fmt::format(" (model.kv_heads = {})", m.key_value_heads()), below,
                above < m.heads || (above == m.heads && below != above) ? fmt::format(", {}", above) : "");
        }
        const auto at_least = [&](std::string_view key, std::int64_t size, std::string_view what) {
            if (size < tp)
                add("mesh.tp: found {}, more than the {} {} of {}; accepted: at most {}", tp, size, what, key, size);
        };
        at_least("model.mlp_width", m.hidden_mlp(), "hidden units");
        if (m.vocabulary != 0) at_least("model.vocabulary", m.vocabulary, "tokens");
        if (job_.sequence_parallel) at_least("model.context", m.context, "tokens");
    }

    void check_zero(int dp) {
        const Job::Zero& zero = job_.zero;
        if (zero.group == 0) return;
        if (zero.stage == 0)
            add("zero.group: found {}, but nothing is cut in stage 0; accepted: 0, or zero.stage = 1, 2 or 3",
                zero.group);
        else if (dp % zero.group != 0)
            add("zero.group: found {}, which does not divide dp = {}; accepted: {}0, all of dp", zero.group,
                counted(dp, "rank"), groups_text(zero.group, dp));
        else if (zero.group == 1)
            add("zero.group: found 1, so that nothing would be cut; accepted: 0, at least 2, or zero.stage = 0");
    }

    void check_batch(int dp) {
        const std::int64_t batch = job_.train.batch;
        const std::int64_t microbatch = job_.train.microbatch;
        check_ramp(dp);
        if (batch % dp != 0) {
            add("train.batch: found {}, which does not divide over dp = {}; nearest that do: {}, or {} along dp", batch,
                counted(dp, "rank"), nearest_multiples(batch, dp * std::max<std::int64_t>(microbatch, 1)),
                ranks_text(nearest_divisors(dp, batch)));
        } else if (microbatch != 0 && batch / dp % microbatch != 0) {
            add("train.microbatch: found {}, which does not divide a rank's part of the batch, {} / {} = {}; "
                "nearest that "
                "do: {}, or a train.batch of {}",
                microbatch, batch, dp, counted(batch / dp, "sequence"), nearest_divisors(microbatch, batch / dp),
                nearest_multiples(batch, dp * microbatch));
        }
    }

    // Groups of one rank cut nothing.
    static std::string groups_text(int group, int dp) {
        const std::string near = dp == 1 ? "" : nearest_divisors(group, dp);
        return near.empty() || near == "1" ? "" : (near.starts_with("1 or ") ? near.substr(5) : near) + ", or ";
    }

    static std::string ranks_text(const std::string& numbers) {
        return numbers + (numbers == "1" ? " rank" : " ranks");
    }

    // Every batch of the ramp must divide as train.batch must; they are all multiples of the first.
    void check_ramp(int dp) {
        const Job::Train& t = job_.train;
        if (t.ramp_batch == 0) {
            if (t.ramp_steps != 0)
                add("train.ramp_steps: found {} without a train.ramp_batch; accepted: 0, or a train.ramp_batch that "
                    "divides train.batch = {}",
                    t.ramp_steps, t.batch);
            return;
        }
        if (t.ramp_batch > t.batch || t.batch % t.ramp_batch != 0)
            add("train.ramp_batch: found {}, which does not divide train.batch = {}; nearest that do: {}, or 0, no "
                "ramp",
                t.ramp_batch, t.batch, nearest_divisors(t.ramp_batch, t.batch));
        const std::int64_t unit = dp * std::max<std::int64_t>(t.microbatch, 1);
        if (t.ramp_batch % unit != 0)
            add("train.ramp_batch: found {}, which does not divide over dp x microbatch = {} x {}; nearest that do: {}",
                t.ramp_batch, dp, std::max<std::int64_t>(t.microbatch, 1), nearest_multiples(t.ramp_batch, unit));
        if (t.ramp_steps == 0)
            add("train.ramp_steps: found 0 with train.ramp_batch = {}; accepted: at least 1, the steps until the batch "
                "is {}",
                t.ramp_batch, t.batch);
    }

    void check_schedule() {
        const Job::Train& t = job_.train;
        if (t.decay_steps > t.steps - t.warmup_steps && t.warmup_steps <= t.steps)
            add("train.decay_steps: found {}, more than the {} after the warm-up; accepted: at most {}", t.decay_steps,
                counted(t.steps - t.warmup_steps, "step"), t.steps - t.warmup_steps);
        if (t.decay_steps != 0 && t.lr_schedule != LrSchedule::wsd)
            add("train.decay_steps: found {}, but train.lr_schedule is not wsd; accepted: 0, or train.lr_schedule = "
                "\"wsd\"",
                t.decay_steps);
        if (t.warmup_steps > t.steps)
            add("train.warmup_steps: found {}, more than train.steps = {}; accepted: at most {}, for instance --set "
                "train.warmup_steps={}",
                t.warmup_steps, t.steps, t.steps, t.steps / 10);
        if (t.min_lr > t.lr)
            add("train.min_lr: found {}, above train.lr = {}; accepted: at most {}, for instance --set train.min_lr={}",
                t.min_lr, t.lr, t.lr, t.lr / 10);
        if (job_.run.trace_step > t.steps)
            add("run.trace_step: found {}, a step that never comes after train.steps = {}; accepted: from 1 to {}, or "
                "0, "
                "no trace",
                job_.run.trace_step, t.steps, t.steps);
    }

    void check_text() {
        check_part(Part::train, "a larger data.train_fraction");
        check_part(Part::validation, "a smaller data.train_fraction");
        check_labels(Part::train);
        check_labels(Part::validation);
        const std::int64_t tokens = dataset_->tokenizer().vocabulary();
        if (job_.model.vocabulary != 0 && job_.model.vocabulary < tokens)
            add("model.vocabulary: found {}, the tokenizer has {}; accepted: {}", job_.model.vocabulary,
                counted(tokens, "token"),
                job_.weights.empty() ? fmt::format("0 (as many as it has), or at least {}", tokens)
                                     : fmt::format("with model.weights, a tokenizer with at most {}, or other weights",
                                                   job_.model.vocabulary));
        try {
            dataset_->tokenizer().encode(job_.sample.prompt, "sample.prompt");
        } catch (const UserError& error) {
            problems_.emplace_back(error.what());
        }
    }

    void check_part(Part part, std::string_view remedy) {
        const auto have = static_cast<std::int64_t>(dataset_->tokens(part).size());
        const std::int64_t need = job_.model.context + 1;
        if (have >= need) return;
        const std::string shorter = have > 1 ? fmt::format(", a model.context of at most {}", have - 1) : "";
        add("data.path: the {} part of '{}' has {}, a sequence needs model.context + 1 = {}; accepted: a longer "
            "text{}, or {} "
            "(now {})",
            name_of(part), job_.data.path, counted(have, "token"), need, shorter, remedy, job_.data.train_fraction);
    }

    void check_labels(Part part) {
        const auto mask = dataset_->mask(part);
        if (mask.size() < 2) return;
        // Nothing predicts the first token.
        if (std::all_of(mask.begin() + 1, mask.end(), [](std::byte byte) { return byte == std::byte{}; }))
            add("data.mask: '{}' makes no token of the {} part a label; accepted: at least one", job_.data.mask,
                name_of(part));
    }

    const Job& job_;
    int ranks_;
    const Dataset* dataset_;
    std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> check(const Job& job, int ranks, const Dataset* dataset) {
    return Checker(job, ranks, dataset).run();
}

std::vector<std::string> check_without_text(const Job& job, int ranks) {
    return Checker(job, ranks, nullptr).run_without_text();
}

std::vector<std::string> check_layout(const Job& job, int ranks) {
    return Checker(job, ranks, nullptr).run_layout();
}

void throw_problems(const std::vector<std::string>& problems, const std::string& remedy) {
    if (problems.empty()) return;
    const std::string last = remedy.empty() ? "" : "\n  " + remedy;
    if (problems.size() == 1) throw UserError("{}{}", problems.front(), last);
    std::string text = fmt::format("{} problems in the configuration", problems.size());
    for (const std::string& problem : problems) text += "\n  - " + problem;
    throw UserError("{}{}", text, last);
}

}  // namespace cleave
