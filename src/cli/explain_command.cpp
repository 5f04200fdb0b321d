#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/words.h"
#include "base/wrap.h"
#include "cli/command.h"
#include "cli/model_job.h"
#include "cli/ranks_option.h"
#include "cli/table_text.h"
#include "train/dry_run_report.h"
#include "train/explain.h"
#include "train/job_layout.h"
#include "train/layout_notes.h"

namespace cleave::cli {
namespace {

// Time goes with the ranks of a group, for each collective: seconds.
constexpr std::int64_t kMostExplained = 1 << 17;

bool moves(const Event& event) {
    return event.type == EventType::issue || event.type == EventType::local;
}

// What does not fit beside its name stands below it.
std::string line_of(const Event& event) {
    if (event.type != EventType::launch && !moves(event)) return {};
    const std::string mark = event.type == EventType::launch ? "    " : "  > ";
    std::string right = event.placement;
    if (event.type == EventType::issue) right += fmt::format(", {} sent", bytes_text(event.bytes));
    const std::string left = fmt::format("{}{:<26} {:<22}", mark, event.name, event.detail);
    if (left.size() + 1 + right.size() <= kTableColumns) return left + " " + right;
    if (left.size() <= kTableColumns) return fmt::format("{}\n        {}", left, right);
    return fmt::format("{}{}\n        {}\n        {}", mark, event.name, event.detail, right);
}

void print_pass(const std::string& title, const ExplainedPass& pass) {
    if (pass.events.empty()) return;
    fmt::print("{}\n", title);
    for (const Event& event : pass.events)
        if (const std::string line = line_of(event); !line.empty()) fmt::print("{}\n", line);
    std::string sent;
    for (const auto& [collective, bytes] : pass.bytes_sent)
        sent += fmt::format("{}{} {}", sent.empty() ? "" : ", ", collective, bytes_text(bytes));
    const std::string sums = fmt::format("{:.3f} GFLOP; sent: {}", pass.flops / 1e9, sent.empty() ? "nothing" : sent);
    fmt::print("    {}\n", wrapped(sums, "        ", kTableColumns));
}

Json pass_json(const ExplainedPass& pass) {
    Json events = Json::array();
    for (const Event& event : pass.events)
        if (event.type == EventType::launch || moves(event))
            events.push(Json{{"type", name_of(event.type)},
                             {"name", event.name},
                             {"tensor", event.detail},
                             {"placement", event.placement},
                             {"bytes", event.bytes},
                             {"flops", event.flops}});
    Json sent = Json::object();
    for (const auto& [collective, bytes] : pass.bytes_sent) sent.set(collective, bytes);
    return Json{{"events", std::move(events)}, {"bytes_sent", std::move(sent)}, {"flops", pass.flops}};
}

std::string range_of(const ExplainedPart& part) {
    return part.last == part.name ? part.name : fmt::format("{} (and alike to {})", part.name, part.last);
}

// Of many ranks the first, the last and the one that is explained.
void print_ranks(const Explanation& e) {
    constexpr int kShown = 16;
    const int count = static_cast<int>(e.coordinates.size());
    fmt::print("ranks\n");
    bool left_out = false;
    for (int rank = 0; rank < count; ++rank) {
        const bool shown = count <= kShown || rank < kShown / 2 || rank == e.rank || rank == count - 1;
        if (!shown && !left_out) fmt::print("   ...\n");
        left_out = !shown;
        if (shown)
            fmt::print("  {:>4}  {}{}\n", rank, e.coordinates[static_cast<std::size_t>(rank)],
                       rank == e.rank ? "   <- explained here" : "");
    }
}

void print_header(const Job& job, int ranks, const Explanation& e) {
    const ModelConfig& m = job.model;
    const int dp = data_parallel_ranks(job, ranks);
    fmt::print("{}: {}, width {}, {}, vocabulary {}; computed in {}\n", m.family == Family::gpt2 ? "gpt2" : "llama",
               counted(m.layers, "layer"), m.width, counted(m.heads, "head"), m.vocabulary, name_of(job.train.dtype));
    fmt::print("batch {} = dp {} x {} x {} of {}\n", job.train.batch, dp,
               counted(e.microbatches, "microbatch", "microbatches"), counted(microbatch_size(job, dp), "sequence"),
               counted(m.context, "token"));
    if (job.mesh.pp > 1) fmt::print("pipeline of {}: {}\n", counted(job.mesh.pp, "stage"), pipeline_text(job));
    fmt::print("{}\n", notes_text(layout_notes(job, dp)));
}

void print_parameters(const Explanation& e) {
    std::vector<std::vector<std::string>> rows{{"name", "shape", "placement", "gradient"}};
    for (const ExplainedParameter& p : e.parameters)
        rows.push_back({p.name, to_string(p.shape), p.placement, p.gradient_placement});
    fmt::print("\nparameters of its stage (without ZeRO's cut)\n{}", table_text(rows, 2));
}

void print_explanation(const Explanation& e) {
    print_ranks(e);
    print_parameters(e);
    fmt::print("\na step of {}; lines with > change a placement\n",
               counted(e.microbatches, "microbatch", "microbatches"));
    for (const ExplainedPart& part : e.parts) print_pass(fmt::format("\n{}, forward", range_of(part)), part.forward);
    for (auto part = e.parts.rbegin(); part != e.parts.rend(); ++part)
        print_pass(fmt::format("\n{}, backward", range_of(*part)), part->backward);
    print_pass("\nthe rest of the step", e.rest);
    fmt::print("\nsent by rank {} in a step\n", e.rank);
    if (e.bytes_sent.empty()) fmt::print("  nothing\n");
    for (const auto& [collective, bytes] : e.bytes_sent)
        fmt::print("  {:<20} {:>12}  ({})\n", collective, bytes_text(bytes), counted(bytes, "byte"));
}

Json document(const Job& job, int ranks, const Explanation& e) {
    const int dp = data_parallel_ranks(job, ranks);
    Json json{{"rank", e.rank}, {"microbatches", e.microbatches}, {"dtype", name_of(job.train.dtype)}};
    json.set("batch", job.train.batch).set("dp", dp).set("sequences", microbatch_size(job, dp));
    json.set("context", job.model.context).set("notes", to_json(layout_notes(job, dp)));
    Json coordinates = Json::array();
    for (const std::string& text : e.coordinates) coordinates.push(text);
    json.set("coordinates", std::move(coordinates));
    Json parameters = Json::array();
    for (const ExplainedParameter& p : e.parameters)
        parameters.push(Json{{"name", p.name},
                             {"shape", to_string(p.shape)},
                             {"placement", p.placement},
                             {"gradient", p.gradient_placement},
                             {"elements", p.elements}});
    json.set("parameters", std::move(parameters));
    Json parts = Json::array();
    for (const ExplainedPart& part : e.parts)
        parts.push(Json{{"name", part.name},
                        {"alike_to", part.last},
                        {"forward", pass_json(part.forward)},
                        {"backward", pass_json(part.backward)}});
    json.set("parts", std::move(parts)).set("rest", pass_json(e.rest));
    Json sent = Json::object();
    for (const auto& [collective, bytes] : e.bytes_sent) sent.set(collective, bytes);
    json.set("bytes_sent", std::move(sent));
    return json;
}

constexpr std::string_view kSupportNotes =
    "I: the same on all ranks; R: the same, and its gradient summed; S(d): dim d is cut; P: a term of a sum. tp+sp: "
    "with "
    "sequence parallelism, grad.: the gradient's then. tp.kv cuts key heads, tp.rep the query heads that share one, "
    "where "
    "ranks of tp are more than key heads. Along dp every parameter is R and its gradient P; ZeRO cuts all of them "
    "along "
    "dp, between blocks of flat memory. Along pp, cp and ep nothing is cut by this version.";

int print_support(bool json) {
    const std::vector<SupportRow> rows = layer_support();
    if (json) {
        Json list = Json::array();
        for (const SupportRow& row : rows)
            list.push(Json{{"family", row.family},
                           {"parameter", row.parameter},
                           {"tp", row.tensor},
                           {"tp_sequence_parallel", row.sequence},
                           {"tp_sequence_parallel_gradient", row.sequence_gradient},
                           {"tp.kv", row.key_heads},
                           {"tp.rep", row.shared_heads}});
        Json axes{{"dp", true}, {"tp", true}, {"zero", true}, {"pp", false}, {"cp", false}, {"ep", false}};
        fmt::print("{}\n", Json{{"axes", std::move(axes)}, {"parameters", std::move(list)}}.dump(2));
        return kExitOk;
    }
    for (const std::string_view family : {"gpt2", "llama"}) {
        std::vector<std::vector<std::string>> table{{"parameter of " + std::string(family), "tp", "tp+sp", "grad."}};
        if (family == "llama") table.front().insert(table.front().end(), {"tp.kv", "tp.rep"});
        for (const SupportRow& row : rows) {
            if (row.family != family) continue;
            table.push_back({row.parameter, row.tensor, row.sequence, row.sequence_gradient});
            if (!row.key_heads.empty()) table.back().insert(table.back().end(), {row.key_heads, row.shared_heads});
        }
        fmt::print("{}\n", table_text(table, 0));
    }
    fmt::print("{}\n", wrapped(kSupportNotes, "", kTableColumns));
    return kExitOk;
}

class ExplainCommand : public Command {
  public:
    std::string name() const override { return "explain"; }
    std::string summary() const override { return "what each layer does and sends"; }
    std::string examples() const override {
        return "  cleave explain my.toml --ranks 4\n"
               "  cleave explain gpt2-124m --ranks 8 --set mesh.tp=4\n"
               "  cleave explain gpt2-124m --ranks 8 --set zero.stage=3\n"
               "Prints each rank's coordinates, how every parameter is placed, and for every\n"
               "part of the model, forward and backward, its kernels with the placement of what\n"
               "they make and its changes of placement with collective and bytes. It is the\n"
               "trace of the step itself, run without storage.";
    }
    void declare(Options& options) override {
        options.positional("RUN.toml", model_, "a run file, or a model by name", false);
        options.integer("--ranks", ranks_, 1, kMostExplained, "ranks of the layout (default: 1)");
        options.integer("--rank", rank_, 0, kMostRanks, "which of them is explained (default: 0)");
        options.texts("--set", "KEY=VALUE", sets_, "change a key of the run file; may be repeated");
        options.flag("--support", support_, "instead: which layer can be cut along which axis, and how");
    }

    int run() override {
        if (support_) return print_support(json);
        if (model_.empty())
            throw UserError("explain: found no RUN.toml; accepted: a run file, a model by name, or --support");
        const int ranks = static_cast<int>(std::max<std::int64_t>(1, ranks_));
        if (rank_ >= ranks)
            throw UserError("--rank: found {}; accepted: from 0 to {}, the ranks of the layout", rank_, ranks - 1);
        const Job job = model_job({.model = model_, .sets = sets_, .ranks = ranks, .vocabulary = kSomeVocabulary});
        const Explanation explanation = explain(job, ranks, static_cast<int>(rank_), comm::TransportKind::inproc, 1);
        if (json) {
            fmt::print("{}\n", document(job, ranks, explanation).dump(2));
        } else {
            print_header(job, ranks, explanation);
            print_explanation(explanation);
        }
        return kExitOk;
    }

  private:
    std::string model_;
    std::int64_t ranks_ = 0;
    std::int64_t rank_ = 0;
    std::vector<std::string> sets_;
    bool support_ = false;
};

}  // namespace

std::unique_ptr<Command> make_explain_command() {
    return std::make_unique<ExplainCommand>();
}

}  // namespace cleave::cli
