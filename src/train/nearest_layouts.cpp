#include "train/nearest_layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "train/job_check.h"
#include "train/job_keys.h"
#include "train/model_check.h"

namespace cleave {

namespace {

constexpr std::size_t kOffered = 3;
constexpr std::size_t kConsidered = 8;  // of which the nearest are offered
constexpr int kMostChecks = 3000;       // a fraction of a second
constexpr double kProblem = 6;          // what a problem that is left is taken to cost, so that few of many are tried

// The keys that a layout consists of, and how unwelcome a change of each is beside the size of the change: how ranks
// share the work first, then the batch, then what a user has switched on, the model last.
struct LayoutKey {
    std::string_view name;
    double weight;
};
constexpr std::array<LayoutKey, 19> kLayoutKeys = {{{"mesh.pp", 1},
                                                    {"mesh.dp", 1},
                                                    {"mesh.cp", 1},
                                                    {"mesh.tp", 1},
                                                    {"zero.group", 1},
                                                    {"zero.stage", 1.5},
                                                    {"zero.reduce", 1},
                                                    {"train.microbatch", 1},
                                                    {"train.ramp_steps", 1},
                                                    {"train.ramp_batch", 1.2},
                                                    {"train.batch", 1.2},
                                                    {"tensor_parallel_chunks", 1.2},
                                                    {"sequence_parallel_inputs", 1.2},
                                                    {"sequence_parallel", 2},
                                                    {"model.head_width", 2},
                                                    {"model.kv_heads", 2},
                                                    {"model.heads", 2.5},
                                                    {"model.width", 3},
                                                    {"model.layers", 3}}};

const LayoutKey* layout_key(std::string_view name) {
    const auto* found =
        std::find_if(kLayoutKeys.begin(), kLayoutKeys.end(), [&](const auto& key) { return key.name == name; });
    return found == kLayoutKeys.end() ? nullptr : found;
}

std::string key_of(const std::string& problem) {
    return problem.substr(0, problem.find(':'));
}

// The divisors of `whole` around `value`, not itself: at most three below and three above.
std::vector<std::int64_t> divisors_near(std::int64_t value, std::int64_t whole) {
    constexpr std::int64_t kFar = 1 << 14;
    std::vector<std::int64_t> found;
    const auto look = [&](std::int64_t from, std::int64_t step) {
        int left = 3;
        for (std::int64_t n = from; left > 0 && n > 0 && n <= whole && std::abs(n - value) < kFar; n += step)
            if (whole % n == 0) {
                found.push_back(n);
                --left;
            }
    };
    look(std::min(value - 1, whole), -1);
    look(value + 1, 1);
    return found;
}

std::vector<std::int64_t> multiples_near(std::int64_t value, std::int64_t unit) {
    std::vector<std::int64_t> found{(value / unit + 1) * unit};
    if (value >= unit) found.push_back(value % unit == 0 ? value - unit : value / unit * unit);
    std::erase_if(found, [](std::int64_t n) { return n <= 0; });
    return found;
}

// What could be done about one problem of a job: every job that follows from it by one change. Whether it helps is
// for the checks to say.
class Repairs {
  public:
    Repairs(const Job& job, int ranks, RanksFrom from)
        : job_(job), ranks_(ranks), from_(from), dp_(std::max(1, data_parallel_ranks(job, ranks))) {}

    std::vector<Job> of(const std::string& key) {
        if (key.starts_with("mesh."))
            mesh(key);
        else if (key.starts_with("zero."))
            zero();
        else if (key.starts_with("train."))
            batch(key);
        else if (key.starts_with("model."))
            model(key);
        else
            tensor_parallelism(key);
        return std::move(found_);
    }

  private:
    template <class Change>
    void add(Change&& change) {
        Job other = job_;
        change(other);
        found_.push_back(std::move(other));
    }
    void set_tp(std::int64_t tp) {
        add([&](Job& job) {
            job.mesh.tp = static_cast<int>(tp);
            fill(job);
        });
    }
    // Where dp is said and the ranks are given, it has to follow the other axes.
    void fill(Job& job) const {
        const std::int64_t others = std::int64_t{job.mesh.pp} * job.mesh.cp * job.mesh.tp;
        if (from_ == RanksFrom::given && job.mesh.dp != 0 && ranks_ % others == 0)
            job.mesh.dp = static_cast<int>(ranks_ / others);
    }
    void other_tp() {
        const std::int64_t tp = job_.mesh.tp;
        for (const std::int64_t n : divisors_near(tp, from_ == RanksFrom::given ? ranks_ : job_.model.heads)) set_tp(n);
    }
    void mesh(const std::string& key) {
        const auto axis = [&](int Job::Mesh::*size) {
            for (const std::int64_t n : divisors_near(job_.mesh.*size, ranks_))
                add([&](Job& job) {
                    job.mesh.*size = static_cast<int>(n);
                    fill(job);
                });
            add([&](Job& job) {
                job.mesh.*size = 1;
                fill(job);
            });
        };
        if (key == "mesh.pp") return axis(&Job::Mesh::pp);
        if (key == "mesh.cp") return axis(&Job::Mesh::cp);
        other_tp();
        if (key == "mesh.tp") set_tp(1);
        add([&](Job& job) { fill(job); });
        if (job_.mesh.dp != 0 && ranks_ % job_.mesh.dp == 0)
            add([&](Job& job) { job.mesh.tp = ranks_ / job_.mesh.dp; });
    }
    void zero() {
        for (const std::int64_t n : divisors_near(job_.zero.group, dp_))
            add([&](Job& job) { job.zero.group = static_cast<int>(n); });
        add([](Job& job) { job.zero.group = 0; });
        if (job_.zero.stage == 0) add([](Job& job) { job.zero.stage = 1; });
        add([](Job& job) { job.zero.reduce = ZeroReduce::microbatch; });
    }
    void tensor_parallelism(const std::string& key) {
        add([&](Job& job) {
            if (key == "sequence_parallel") job.sequence_parallel = false;
            if (key == "sequence_parallel_inputs") job.sequence_parallel_inputs = SequenceInputs::gathered;
            if (key == "tensor_parallel_chunks") job.tensor_parallel_chunks = 1;
        });
        if (job_.mesh.tp == 1) other_tp();
        if (!job_.sequence_parallel) add([](Job& job) { job.sequence_parallel = true; });
    }
    void batch(const std::string& key) {
        const Job::Train& t = job_.train;
        const std::int64_t unit = dp_ * std::max<std::int64_t>(t.microbatch, 1);
        const std::int64_t first = t.ramp_batch == 0 ? unit : std::lcm(unit, t.ramp_batch);
        for (const std::int64_t step : {unit, std::int64_t{dp_}, first})
            for (const std::int64_t n : multiples_near(t.batch, step)) add([&](Job& job) { job.train.batch = n; });
        if (t.microbatch != 0) {
            if (t.batch % dp_ == 0)
                for (const std::int64_t n : divisors_near(t.microbatch, t.batch / dp_))
                    add([&](Job& job) { job.train.microbatch = n; });
            add([](Job& job) { job.train.microbatch = 0; });
        }
        if (key.starts_with("train.ramp")) ramp(unit);
        other_tp();
        if (from_ == RanksFrom::mesh)
            for (const std::int64_t n : divisors_near(dp_, t.batch))
                add([&](Job& job) { job.mesh.dp = static_cast<int>(n); });
    }
    void ramp(std::int64_t unit) {
        const Job::Train& t = job_.train;
        add([](Job& job) { job.train.ramp_batch = job.train.ramp_steps = 0; });
        if (t.ramp_batch == 0) return;
        if (t.ramp_steps == 0)
            add([](Job& job) { job.train.ramp_steps = std::max<std::int64_t>(1, job.train.steps / 10); });
        for (const std::int64_t n : divisors_near(t.ramp_batch, t.batch))
            add([&](Job& job) { job.train.ramp_batch = n; });
        for (const std::int64_t n : multiples_near(t.ramp_batch, unit))
            add([&](Job& job) { job.train.ramp_batch = n; });
    }
    void model(const std::string& key) {
        const ModelConfig& m = job_.model;
        if (key == "model.head_width") {
            for (const std::int64_t more : {-m.head_width, std::int64_t{-1}, std::int64_t{1}})
                add([&](Job& job) { job.model.head_width += more; });
        } else if (key == "model.kv_heads") {
            for (const std::int64_t n : divisors_near(m.key_value_heads(), m.heads))
                add([&](Job& job) { job.model.kv_heads = n; });
            add([](Job& job) { job.model.kv_heads = 0; });
        }
        for (const std::int64_t n : divisors_near(m.heads, m.width)) add([&](Job& job) { job.model.heads = n; });
        for (const std::int64_t unit : {m.heads, 2 * m.heads})
            for (const std::int64_t n : multiples_near(m.width, unit)) add([&](Job& job) { job.model.width = n; });
    }

    const Job& job_;
    int ranks_;
    RanksFrom from_;
    int dp_;
    std::vector<Job> found_;
};

std::map<std::string_view, Value> values_of(const Job& job) {
    Job copy = job;
    std::map<std::string_view, Value> values;
    for (const Key& key : keys_of(copy))
        if (const LayoutKey* known = layout_key(key.name)) values[known->name] = value_of(key);
    return values;
}

using Values = std::map<std::string_view, Value>;

Job with_value(Job job, std::string_view name, const Value& value) {
    for (const Key& key : keys_of(job))
        if (key.name == name) assign(key, value);
    return job;
}

double change_of(const Value& was, const Value& is) {
    const auto* a = std::get_if<std::int64_t>(&was);
    const auto* b = std::get_if<std::int64_t>(&is);
    if (a == nullptr || b == nullptr) return 1;
    if (*a == 0 || *b == 0) return 2;
    return 0.5 + std::abs(std::log2(static_cast<double>(*a) / static_cast<double>(*b)));
}

class Search {
  public:
    Search(const Job& job, int ranks, RanksFrom from, const std::set<std::string, std::less<>>& refused)
        : job_(job), ranks_(ranks), from_(from), refused_(refused), asked_(values_of(job)) {
        for (const std::string& problem : check_layout(job, ranks)) before_.insert(key_of(problem));
    }

    std::vector<NearLayout> run() {
        if (problems_of(job_).keys.empty()) return {};
        take(job_);
        take(plain(job_));
        while (!open_.empty() && found_.size() < kConsidered && checks_ < kMostChecks) {
            const Node next = std::move(open_.begin()->second);
            open_.erase(open_.begin());
            if (next.problem.empty())
                offer(shortest(next.job));
            else
                for (const Job& repaired : Repairs(next.job, ranks_of(next.job), from_).of(next.problem))
                    take(repaired);
        }
        // What had been found when the checks were used up.
        for (const auto& [cost, node] : open_)
            if (node.problem.empty() && found_.size() < kConsidered) offer(shortest(node.job));
        std::vector<NearLayout> nearest;
        for (auto& [distance, layout] : found_)
            if (nearest.size() < kOffered) nearest.push_back(std::move(layout));
        return nearest;
    }

  private:
    int ranks_of(const Job& job) const {
        const Job::Mesh& m = job.mesh;
        return from_ == RanksFrom::given ? ranks_ : m.pp * std::max(1, m.dp) * m.cp * m.tp;
    }
    // As far from what was asked as need be: data parallelism alone, so that something is offered whatever is wrong.
    Job plain(const Job& job) const {
        Job other = job;
        other.mesh = {};
        if (from_ == RanksFrom::mesh) other.mesh.dp = 1;
        other.zero = {};
        other.sequence_parallel = false;
        other.sequence_parallel_inputs = SequenceInputs::gathered;
        other.tensor_parallel_chunks = 1;
        other.train.microbatch = other.train.ramp_batch = other.train.ramp_steps = 0;
        const std::int64_t dp = std::max(1, data_parallel_ranks(other, ranks_of(other)));
        other.train.batch = (other.train.batch + dp - 1) / dp * dp;
        if (!check_model(other.model).empty()) {
            other.model.kv_heads = other.model.head_width = 0;
            if (other.model.width % (2 * other.model.heads) != 0)
                other.model.heads = other.model.width % 2 == 0 ? other.model.width / 2 : 1;
        }
        return other;
    }
    struct Problems {
        std::string first;
        std::set<std::string> keys;
    };
    // Those of the layout's keys, which a change may mend, and others that were not there before.
    Problems problems_of(const Job& job) {
        ++checks_;
        Problems problems;
        for (const std::string& problem : check_layout(job, ranks_of(job))) {
            const std::string key = key_of(problem);
            if (layout_key(key) == nullptr && before_.count(key) != 0) continue;
            if (problems.first.empty()) problems.first = key;
            problems.keys.insert(key);
        }
        return problems;
    }
    double distance(const Values& values) const {
        double sum = 0;
        for (const LayoutKey& key : kLayoutKeys)
            if (values.at(key.name) != asked_.at(key.name))
                sum += key.weight * change_of(asked_.at(key.name), values.at(key.name));
        return sum;
    }
    void take(const Job& job) {
        const Values values = values_of(job);
        std::string text;
        for (const auto& [name, value] : values) text += value_text(value) + " ";
        if (!seen_.insert(text).second) return;
        const Problems problems = problems_of(job);
        open_.emplace(distance(values) + kProblem * static_cast<double>(problems.keys.size()),
                      Node{job, problems.first});
    }
    // Without the changes that it turns out not to need.
    Job shortest(Job job) {
        for (const LayoutKey& key : kLayoutKeys) {
            Job fewer = with_value(job, key.name, asked_.at(key.name));
            if (values_of(fewer) != values_of(job) && problems_of(fewer).keys.empty()) job = std::move(fewer);
        }
        return job;
    }
    void offer(const Job& job) {
        NearLayout layout;
        layout.ranks = ranks_of(job);
        const Values values = values_of(job);
        std::string text;
        for (const LayoutKey& key : kLayoutKeys)
            if (values.at(key.name) != asked_.at(key.name) || refused_.count(key.name) != 0) {
                layout.settings.push_back({std::string(key.name), value_text(values.at(key.name))});
                text += as_set(layout.settings.back()) + " ";
            }
        if (offered_.insert(text).second) found_.emplace(distance(values), std::move(layout));
    }

    const Job& job_;
    int ranks_;
    RanksFrom from_;
    const std::set<std::string, std::less<>>& refused_;
    Values asked_;
    std::set<std::string> before_, seen_, offered_;
    struct Node {
        Job job;
        std::string problem;  // to mend next; empty: none is left
    };
    std::multimap<double, Node> open_;
    std::multimap<double, NearLayout> found_;
    int checks_ = 0;
};

}  // namespace

std::vector<NearLayout> nearest_layouts(const Job& job, int ranks, RanksFrom from,
                                        const std::set<std::string, std::less<>>& refused) {
    Job copy = job;
    for (const Key& key : keys_of(copy))
        if (range_problem(key)) return {};  // nothing else can be asked
    return Search(job, ranks, from, refused).run();
}

std::string as_set(const LayoutSetting& setting) {
    const bool quoted = setting.value.starts_with('"');  // a word: --set takes it bare
    return fmt::format("--set {}={}", setting.key,
                       quoted ? setting.value.substr(1, setting.value.size() - 2) : setting.value);
}

std::string nearest_layouts_text(const std::vector<NearLayout>& layouts,
                                 const std::function<std::string(const LayoutSetting&)>& named, bool with_ranks) {
    std::string text;
    for (const NearLayout& layout : layouts) {
        text += text.empty() ? "layouts that work, the nearest first:\n    " : "\n    ";
        if (with_ranks) text += fmt::format("--ranks {}{}", layout.ranks, layout.settings.empty() ? "" : " ");
        for (std::size_t i = 0; i < layout.settings.size(); ++i)
            text += fmt::format("{}{}", i == 0 ? "" : " ", named(layout.settings[i]));
    }
    return text;
}

}  // namespace cleave
