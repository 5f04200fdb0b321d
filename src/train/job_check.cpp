#include "train/job_check.h"

#include <algorithm>

#include "base/error.h"
#include "train/job_keys.h"

namespace cleave {
namespace {

// The multiples of `unit` around `value`, as "24 or 36".
std::string nearest_multiples(std::int64_t value, std::int64_t unit) {
    const std::int64_t below = value / unit * unit;
    if (below == 0) return fmt::format("{}", unit);
    return fmt::format("{} or {}", below, below + unit);
}

// The divisors of `whole` nearest to `value`, below and above it, as "4 or 8".
std::string nearest_divisors(std::int64_t value, std::int64_t whole) {
    std::int64_t below = std::min(value, whole);
    while (whole % below != 0) --below;
    std::int64_t above = std::min(value, whole);
    while (whole % above != 0) ++above;
    return below == above ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

class Checker {
  public:
    Checker(const Job& job, int ranks, const Dataset* dataset) : job_(job), ranks_(ranks), dataset_(dataset) {}

    std::vector<std::string> run() {
        check_ranges();
        if (!problems_.empty()) return std::move(problems_);  // the rest divides and multiplies these numbers
        check_model();
        check_mesh();
        check_schedule();
        if (dataset_ != nullptr)
            check_text();
        else
            for (auto& problem : {text_problem(job_.data), tokenizer_problem(job_.data)})
                if (problem) problems_.push_back(*problem);
        return std::move(problems_);
    }

  private:
    template <class... Args>
    void add(fmt::format_string<Args...> format, Args&&... args) {
        problems_.push_back(fmt::format(format, std::forward<Args>(args)...));
    }

    void check_ranges() {
        Job copy = job_;
        for (const Key& key : keys_of(copy))
            if (const auto problem = range_problem(key)) add("{}: {}", key.name, *problem);
    }

    void check_model() {
        const ModelConfig& m = job_.model;
        const bool divides = m.width % m.heads == 0;
        if (!divides)
            add("model.heads: found {}, which does not divide model.width = {}; nearest that do: {} heads, or a width "
                "of {}",
                m.heads, m.width, nearest_divisors(m.heads, m.width), nearest_multiples(m.width, m.heads));
        if (m.family == Family::llama) {
            if (divides && m.head_width() % 2 != 0)
                add("model.heads: found {}, which gives heads of width {}; rotary positions need an even width: with "
                    "{} heads, "
                    "a model.width of {}",
                    m.heads, m.head_width(), m.heads, nearest_multiples(m.width, 2 * m.heads));
            if (m.heads % m.key_value_heads() != 0)
                add("model.kv_heads: found {}, which does not divide model.heads = {}; nearest that do: {}", m.kv_heads,
                    m.heads, nearest_divisors(m.kv_heads, m.heads));
        } else if (m.key_value_heads() != m.heads) {
            add("model.kv_heads: found {}; family gpt2 accepts 0 or model.heads = {} (family llama has grouped heads)",
                m.kv_heads, m.heads);
        }
    }

    void check_mesh() {
        const Job::Mesh& mesh = job_.mesh;
        const auto only_one = [&](std::string_view axis, int size) {
            if (size != 1)
                add("mesh.{}: found {}; accepted: 1. Not supported yet by this version: ranks along {}; only data "
                    "parallelism "
                    "(mesh.dp) is",
                    axis, size, axis);
        };
        only_one("pp", mesh.pp);
        only_one("cp", mesh.cp);
        only_one("tp", mesh.tp);
        const std::int64_t others = std::int64_t{mesh.pp} * mesh.cp * mesh.tp;
        if (others == 1 && mesh.dp != 0 && mesh.dp != ranks_)
            add("mesh.dp: found {}, but the run has {} ranks; accepted: {}, or 0, which fills the ranks (or --ranks "
                "{})",
                mesh.dp, ranks_, ranks_, mesh.dp);
        // The batch too is judged at once, for the dp that was asked for, or else all ranks.
        check_batch(mesh.dp != 0 ? mesh.dp : ranks_);
    }

    void check_batch(int dp) {
        const std::int64_t batch = job_.train.batch;
        const std::int64_t microbatch = job_.train.microbatch;
        if (batch % dp != 0) {
            add("train.batch: found {}, which does not divide over dp = {} ranks; nearest that do: {}, or {} ranks",
                batch, dp, nearest_multiples(batch, dp * std::max<std::int64_t>(microbatch, 1)),
                nearest_divisors(dp, batch));
        } else if (microbatch != 0 && batch / dp % microbatch != 0) {
            add("train.microbatch: found {}, which does not divide a rank's part of the batch, {} / {} = {} sequences; "
                "nearest that "
                "do: {}, or a train.batch of {}",
                microbatch, batch, dp, batch / dp, nearest_divisors(microbatch, batch / dp),
                nearest_multiples(batch, dp * microbatch));
        }
    }

    void check_schedule() {
        const Job::Train& t = job_.train;
        if (t.warmup_steps > t.steps)
            add("train.warmup_steps: found {}, more than train.steps = {}; accepted: at most {}", t.warmup_steps,
                t.steps, t.steps);
        if (t.min_lr > t.lr)
            add("train.min_lr: found {}, above train.lr = {}; accepted: at most {}", t.min_lr, t.lr, t.lr);
    }

    void check_text() {
        check_part(Part::train, "a larger data.train_fraction");
        check_part(Part::validation, "a smaller data.train_fraction");
        const std::int64_t tokens = dataset_->tokenizer().vocabulary();
        if (job_.model.vocabulary != 0 && job_.model.vocabulary < tokens)
            add("model.vocabulary: found {}, the tokenizer has {} tokens; accepted: 0 (as many as it has), or at least "
                "{}",
                job_.model.vocabulary, tokens, tokens);
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
        add("data.path: the {} part of '{}' has {} tokens, a sequence needs model.context + 1 = {}; accepted: a longer "
            "text{}, or {} "
            "(now {})",
            name_of(part), job_.data.path, have, need, shorter, remedy, job_.data.train_fraction);
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

void throw_problems(const std::vector<std::string>& problems) {
    if (problems.empty()) return;
    if (problems.size() == 1) throw UserError("{}", problems.front());
    std::string text = fmt::format("{} problems in the configuration", problems.size());
    for (const std::string& problem : problems) text += "\n  - " + problem;
    throw UserError("{}", text);
}

}  // namespace cleave
