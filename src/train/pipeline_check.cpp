#include "train/pipeline_check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/words.h"
#include "train/job_layout.h"

namespace cleave {

namespace {

constexpr int kMostCounts = 1 << 20;

class PipelineChecker {
  public:
    PipelineChecker(const Job& job, int dp) : job_(job), dp_(dp) {}

    std::vector<std::string> run() {
        if (job_.mesh.pp == 1)
            check_nothing_to_cut();
        else
            check_cut();
        return std::move(problems_);
    }

  private:
    template <class... Args>
    void add(fmt::format_string<Args...> format, Args&&... args) {
        problems_.push_back(fmt::format(format, std::forward<Args>(args)...));
    }

    void check_nothing_to_cut() {
        const Job::Pipeline none;
        const auto unused = [&](std::string_view key, const auto& found, const auto& accepted) {
            if (found != accepted)
                add("pipeline.{}: found {} with mesh.pp = 1, where there is no pipeline; accepted: {}, or a mesh.pp of "
                    "at "
                    "least 2",
                    key, quoted(found), quoted(accepted));
        };
        unused("schedule", job_.pipeline.schedule, none.schedule);
        unused("chunks", job_.pipeline.chunks, none.chunks);
        unused("schedule_file", job_.pipeline.schedule_file, none.schedule_file);
        unused("layers", job_.pipeline.layers, none.layers);
    }
    static std::string quoted(const std::string& text) { return fmt::format("\"{}\"", text); }
    static std::string quoted(int number) { return std::to_string(number); }

    // The microbatches of a step, of all steps.
    std::set<int> microbatches() const {
        std::set<int> counts;
        const Job::Train& t = job_.train;
        const std::int64_t first = t.ramp_batch == 0 ? t.batch : t.ramp_batch;
        for (std::int64_t batch = first; batch <= t.batch; batch += first)
            counts.insert(static_cast<int>(accumulation(job_, dp_, batch)));
        return counts;
    }

    // False where it is not known into how many parts the model is cut.
    bool check_order() { return job_.pipeline.schedule_file.empty() ? check_kind() : check_file(); }

    bool check_kind() {
        using Field = ScheduleOptionProblem::Field;
        std::set<std::string> said;
        bool known = true;
        for (const int count : microbatches())
            for (const ScheduleOptionProblem& problem : problems_of(schedule_options(job_, count))) {
                known &= problem.field == Field::microbatches;
                const std::string text = place_of(problem.field) + ": " + problem.text;
                if (said.insert(text).second) problems_.push_back(text);
            }
        return known;
    }
    static std::string place_of(ScheduleOptionProblem::Field field) {
        using Field = ScheduleOptionProblem::Field;
        switch (field) {
            case Field::kind: return "pipeline.schedule";
            case Field::stages: return "mesh.pp";
            case Field::chunks: return "pipeline.chunks";
            case Field::microbatches: break;
        }
        return "train.microbatch: microbatches in a step, train.batch / (dp x train.microbatch)";
    }

    bool check_file() {
        const Job::Pipeline none;
        if (job_.pipeline.schedule != none.schedule || job_.pipeline.chunks != none.chunks)
            add("pipeline.schedule_file: found together with pipeline.{}, which the file says; accepted: one of them",
                job_.pipeline.chunks != none.chunks ? "chunks" : "schedule");
        try {
            const PipelineSchedule schedule = pipeline_schedule(job_, 1);
            if (schedule.stages != job_.mesh.pp)
                add("pipeline.schedule_file: {} has {}; accepted: mesh.pp = {}", job_.pipeline.schedule_file,
                    counted(schedule.stages, "stage"), job_.mesh.pp);
            for (const int count : microbatches())
                if (schedule.microbatches != count)
                    add("pipeline.schedule_file: {} has {}, but a step has train.batch / (dp x train.microbatch) = {}; "
                        "accepted: as many",
                        job_.pipeline.schedule_file, counted(schedule.microbatches, "microbatch", "microbatches"),
                        count);
            return schedule.stages == job_.mesh.pp;
        } catch (const UserError& error) {
            problems_.push_back(fmt::format("pipeline.schedule_file: {}", error.what()));
            return false;
        }
    }

    void check_cut() {
        if (!check_order()) return;
        Job even = job_;
        even.pipeline.layers.clear();
        const int parts = pipeline_form(even).virtual_stages();
        const std::int64_t layers = job_.model.layers;
        if (job_.pipeline.layers.empty()) {
            if (layers < parts)
                add("mesh.pp: found {}, which cuts the model into {}, but model.layers = {}; accepted: at most {}",
                    job_.mesh.pp, counted(parts, "part"), layers, counted(layers, "part"));
            return;
        }
        const auto counts = layer_counts(job_.pipeline.layers);
        if (!counts) {
            add("pipeline.layers: found \"{}\"; accepted: the layers of each part, as in \"{}\"", job_.pipeline.layers,
                even_text(layers, parts));
            return;
        }
        const std::int64_t sum = std::accumulate(counts->begin(), counts->end(), std::int64_t{0});
        if (static_cast<int>(counts->size()) != parts)
            add("pipeline.layers: found {}, but the model is cut into {}; accepted: as many, for instance \"{}\"",
                counted(static_cast<std::int64_t>(counts->size()), "part"), counted(parts, "part"),
                even_text(layers, parts));
        else if (sum != layers)
            add("pipeline.layers: found {} together, but model.layers = {}; accepted: as many, for instance \"{}\"",
                counted(sum, "layer"), layers, even_text(layers, parts));
        else if (std::any_of(counts->begin() + 1, counts->end() - 1, [](std::int64_t n) { return n == 0; }))
            add("pipeline.layers: found \"{}\", where a part between the first and the last has no layer; accepted: at "
                "least 1 (the first and the last, which have the embedding and the head, may have 0)",
                job_.pipeline.layers);
    }

    static std::string even_text(std::int64_t layers, int parts) {
        return fmt::format("{}", fmt::join(distribute_layers(layers, parts, 0), ","));
    }

    const Job& job_;
    int dp_;
    std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> check_pipeline(const Job& job, int dp) {
    return PipelineChecker(job, dp).run();
}

std::optional<std::vector<std::int64_t>> layer_counts(const std::string& text) {
    std::vector<std::int64_t> counts;
    const char* at = text.data();
    const char* const end = at + text.size();
    for (;;) {
        while (at != end && *at == ' ') ++at;
        std::int64_t count = 0;
        const auto [after, error] = std::from_chars(at, end, count);
        if (error != std::errc() || count < 0 || count > kMostCounts || counts.size() == kMostCounts)
            return std::nullopt;
        counts.push_back(count);
        at = after;
        while (at != end && *at == ' ') ++at;
        if (at == end) return counts;
        if (*at++ != ',') return std::nullopt;
    }
}

}  // namespace cleave
