#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/model_job.h"
#include "cli/ranks_option.h"
#include "config/models.h"
#include "train/dry_run_report.h"
#include "train/job_layout.h"
#include "train/layout_notes.h"
#include "train/saved_activations.h"

namespace cleave::cli {
namespace {

constexpr std::size_t kShownTerms = 14;

// What a number of activations is measured in: sequence x microbatch x width, of the whole, not of a rank's part.
double unit_of(const Job& job, int dp) {
    return static_cast<double>(job.model.context * microbatch_size(job, dp) * job.model.width);
}

// One way to hold a layer's activations.
struct ActivationForm {
    const char* name;
    AttentionKind attention;
    Recompute recompute;
    bool tensor;
    bool sequence;
};
constexpr ActivationForm kForms[] = {
    {"none", AttentionKind::materialised, Recompute::none, false, false},
    {"tensor", AttentionKind::materialised, Recompute::none, true, false},
    {"tensor, sequence", AttentionKind::materialised, Recompute::none, true, true},
    {"tensor, fused attention", AttentionKind::fused, Recompute::none, true, false},
    {"tensor, sequence, fused attention", AttentionKind::fused, Recompute::none, true, true},
    {"tensor, sequence, fused, recompute selective", AttentionKind::fused, Recompute::selective, true, true},
    {"tensor, recompute full", AttentionKind::fused, Recompute::full, true, false},
    {"tensor, sequence, recompute full", AttentionKind::fused, Recompute::full, true, true},
};

Job in_form(const Job& job, const ActivationForm& form) {
    Job other = job;
    other.model.attention = form.attention;
    other.recompute = form.recompute;
    if (!form.tensor) other.mesh.tp = 1;
    other.sequence_parallel = form.sequence && other.mesh.tp > 1;
    return other;
}

class MemoryCommand : public Command {
  public:
    std::string name() const override { return "memory"; }
    std::string summary() const override { return "what a rank holds, term by term"; }
    std::string examples() const override {
        return "  cleave memory gpt2-124m --dp 8 --zero 1 --microbatch 4\n"
               "  cleave memory gpt3-175b --tp 8 --sp on\n"
               "  cleave memory my.toml --tp 2 --recompute selective\n"
               "Counts what a training step takes on one rank: parameters, gradients, optimizer\n"
               "state, and at its peak everything, from the same program that trains. Of a\n"
               "layer's activations it names each tensor that is kept until backward, also in\n"
               "units of s b h (sequence x microbatch x width), and compares the ways to hold\n"
               "them. Nothing is allocated: any size will do.";
    }
    void declare(Options& options) override {
        options.positional("MODEL", model_, "a model by name (models/), or a run file", true);
        options.section("layout");
        options.integer("--tp", tp_, 1, kMostRanks, "ranks of tensor parallelism");
        options.integer("--dp", dp_, 1, kMostRanks, "ranks of data parallelism");
        options.integer("--pp", pp_, 1, kMostRanks, "pipeline stages");
        options.integer("--cp", cp_, 1, kMostRanks, "ranks of context parallelism");
        options.integer("--zero", zero_, 0, 3, "ZeRO stage");
        options.text("--sp", "on|off", sp_, "sequence parallelism");
        options.text("--recompute", "none|selective|full", recompute_, "what backward computes again");
        options.section("sizes");
        options.integer("--seq", seq_, 1, 1 << 26, "tokens of a sequence (default: model.context)");
        options.integer("--microbatch", microbatch_, 1, 1 << 24,
                        "sequences in one pass of a rank (a model by name: 1)");
        options.text("--dtype", "bf16|f32|f64", dtype_, "of the computation (default: bf16 for a model by name)");
        options.texts("--set", "KEY=VALUE", sets_, "change any other key; may be repeated");
    }

    int run() override {
        const Job job = checked_job();
        const int dp = data_parallel_ranks(job, ranks_);
        stages_ = stage_plans(job, ranks_, comm::TransportKind::inproc, 1);
        const RankPlan plan = memory_plan(job, ranks_, comm::TransportKind::inproc, 1);
        const SavedActivations saved = saved_activations(job, ranks_, 1);
        if (json)
            fmt::print("{}\n", document(job, dp, plan, saved).dump(2));
        else
            print(job, dp, plan, saved);
        return kExitOk;
    }

  private:
    // The file's layout and batch but for what an option says. A model by name has one sequence a rank.
    Job checked_job() {
        const bool named = is_model_name(model_);
        const std::vector<TypedFlag> flags = typed_flags();
        std::vector<std::string> sets;
        if (dtype_.empty() && named) sets.emplace_back("train.dtype=bf16");
        sets.insert(sets.end(), sets_.begin(), sets_.end());
        const RunFile file = read_model_or_run_file(model_, sets, flags);
        const Job::Mesh& mesh = file.job.mesh;
        const std::int64_t dp = std::max(1, mesh.dp);
        const std::int64_t ranks = std::int64_t{mesh.pp} * dp * mesh.cp * mesh.tp;
        if (ranks > kMostRanks)
            throw UserError("--tp, --dp, --pp: found {} ranks in all; accepted: at most {}", ranks, kMostRanks);
        ranks_ = static_cast<int>(ranks);
        // In a pipeline as many microbatches as fill it, and as any schedule takes.
        const std::int64_t passes = mesh.pp == 1 ? 1 : 2 * std::int64_t{mesh.pp};
        const bool has_batch = file.places.contains("train.batch");
        if (named ? !has_batch : microbatch_ != 0 && !sets_the_batch())
            sets.push_back(
                fmt::format("train.batch={}", dp * passes * std::max<std::int64_t>(1, file.job.train.microbatch)));
        if (passes > 1 && file.job.train.microbatch == 0) sets.emplace_back("train.microbatch=1");
        return model_job({.model = model_,
                          .sets = sets,
                          .flags = flags,
                          .ranks = ranks_,
                          .ranks_from = RanksFrom::mesh,
                          .vocabulary = kSomeVocabulary});
    }

    bool sets_the_batch() const {
        return std::any_of(sets_.begin(), sets_.end(),
                           [](const std::string& set) { return set.starts_with("train.batch="); });
    }

    std::vector<TypedFlag> typed_flags() const {
        std::vector<TypedFlag> flags;
        const auto number = [&](const char* flag, const char* key, std::int64_t value, std::int64_t unset) {
            if (value != unset) flags.push_back({flag, key, fmt::format("{}", value)});
        };
        number("--tp", "mesh.tp", tp_, 0);
        number("--dp", "mesh.dp", dp_, 0);
        number("--pp", "mesh.pp", pp_, 0);
        number("--cp", "mesh.cp", cp_, 0);
        number("--zero", "zero.stage", zero_, -1);
        number("--seq", "model.context", seq_, 0);
        number("--microbatch", "train.microbatch", microbatch_, 0);
        if (!sp_.empty() && sp_ != "on" && sp_ != "off") throw UserError("--sp: found '{}'; accepted: on, off", sp_);
        if (!sp_.empty()) flags.push_back({"--sp", "sequence_parallel", sp_ == "on" ? "true" : "false"});
        if (!recompute_.empty()) flags.push_back({"--recompute", "recompute", recompute_});
        if (!dtype_.empty()) flags.push_back({"--dtype", "train.dtype", dtype_});
        return flags;
    }

    static void print_terms(const std::vector<SavedTerm>& terms, double unit) {
        std::size_t shown = 0;
        for (const SavedTerm& term : terms) {
            if (++shown > kShownTerms) break;
            fmt::print("    {:<34} {:>12} {:>12.4f} s b h\n", term.name, bytes_text(term.bytes),
                       static_cast<double>(term.bytes) / unit);
        }
    }

    // What is printed above is the stage that needs most.
    void print_stages(const Job& job, int dp) const {
        fmt::print("  {}; {}\n", pipeline_text(job),
                   counted(accumulation(job, dp, job.train.batch), "microbatch", "microbatches"));
        for (std::size_t stage = 0; stage < stages_.size(); ++stage)
            fmt::print("    {:<34} {:>12}   {}\n", fmt::format("stage {}", stage),
                       bytes_text(stages_[stage].peak_bytes), counted(stages_[stage].layers, "layer"));
    }

    void print(const Job& job, int dp, const RankPlan& plan, const SavedActivations& saved) const {
        const double unit = unit_of(job, dp);
        fmt::print("one rank of {} ({}tp {} x dp {}), {}, ZeRO stage {}, {} x {} tokens a pass\n", ranks_,
                   job.mesh.pp == 1 ? "" : fmt::format("pp {} x ", job.mesh.pp), job.mesh.tp, dp,
                   cleave::name_of(job.train.dtype), job.zero.stage, microbatch_size(job, dp), job.model.context);
        fmt::print("{}", notes_text(layout_notes(job, dp)));
        fmt::print("  {:<36} {:>12}   at the peak of a run\n", "memory", bytes_text(plan.peak_bytes));
        for (int kind = 0; kind < kMemoryKinds; ++kind)
            if (const std::int64_t bytes = plan.at_peak[static_cast<std::size_t>(kind)]; bytes > 0)
                fmt::print("    {:<34} {:>12}\n", cleave::name_of(static_cast<MemoryKind>(kind)), bytes_text(bytes));
        if (job.mesh.pp > 1) print_stages(job, dp);
        const std::int64_t block = total_bytes(saved.block);
        fmt::print("  {:<36} {:>12} {:>12.4f} s b h, x {} = {}\n", "a layer keeps until backward", bytes_text(block),
                   static_cast<double>(block) / unit, counted(job.model.layers, "layer"),
                   bytes_text(block * job.model.layers));
        print_terms(saved.block, unit);
        fmt::print("  {:<36} {:>12}\n", "beside the layers", bytes_text(total_bytes(saved.rest)));
        fmt::print("a layer's activations in other forms (tp {})\n", job.mesh.tp);
        for (const ActivationForm& form : kForms) {
            const Job other = in_form(job, form);
            if (form.tensor && job.mesh.tp == 1) continue;
            const std::int64_t bytes = layer_bytes(other);
            fmt::print("    {:<44} {:>12}  x {} = {}\n", form.name, bytes_text(bytes), job.model.layers,
                       bytes_text(bytes * job.model.layers));
        }
    }

    std::int64_t layer_bytes(const Job& job) const {
        return total_bytes(saved_activations(job, job.mesh.pp * job.mesh.tp * std::max(1, job.mesh.dp), 1).block);
    }

    Json document(const Job& job, int dp, const RankPlan& plan, const SavedActivations& saved) const {
        const double unit = unit_of(job, dp);
        Json json{{"model", model_}, {"ranks", ranks_}, {"peak_bytes", to_json(plan.at_peak)}};
        json.set("peak_total_bytes", total_of(plan.at_peak)).set("sbh", unit);
        Json stages = Json::array();
        for (const RankPlan& stage : stages_)
            stages.push(Json{{"layers", stage.layers}, {"peak_bytes", to_json(stage.at_peak)}});
        json.set("stages", std::move(stages));
        const auto terms = [&](const std::vector<SavedTerm>& list) {
            Json rows = Json::array();
            for (const SavedTerm& term : list)
                rows.push(Json{{"name", term.name},
                               {"bytes", term.bytes},
                               {"tensors", term.count},
                               {"sbh", static_cast<double>(term.bytes) / unit}});
            return rows;
        };
        json.set("layer", terms(saved.block)).set("layer_bytes", total_bytes(saved.block));
        json.set("layers", job.model.layers).set("rest", terms(saved.rest));
        Json forms = Json::array();
        for (const ActivationForm& form : kForms)
            if (!form.tensor || job.mesh.tp > 1)
                forms.push(Json{{"form", form.name}, {"layer_bytes", layer_bytes(in_form(job, form))}});
        json.set("forms", std::move(forms)).set("notes", to_json(layout_notes(job, dp)));
        return json;
    }

    std::string model_;
    std::vector<RankPlan> stages_;
    std::int64_t tp_ = 0, dp_ = 0, pp_ = 0, cp_ = 0;  // 0: the file's
    std::int64_t zero_ = -1;                          // -1: the file's
    std::string sp_;
    std::string recompute_;
    std::int64_t seq_ = 0;
    int ranks_ = 1;
    std::int64_t microbatch_ = 0;
    std::string dtype_;
    std::vector<std::string> sets_;
};

}  // namespace

std::unique_ptr<Command> make_memory_command() {
    return std::make_unique<MemoryCommand>();
}

}  // namespace cleave::cli
