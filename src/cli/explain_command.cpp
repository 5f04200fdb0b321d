#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/model_job.h"
#include "cli/ranks_option.h"
#include "train/dry_run_report.h"
#include "train/explain.h"

namespace cleave::cli {
namespace {

bool moves(const Event& event) {
    return event.type == EventType::issue || event.type == EventType::local;
}

std::string line_of(const Event& event) {
    if (event.type == EventType::launch)
        return fmt::format("    {:<26} {:<22} {}", event.name, event.detail, event.placement);
    if (event.type == EventType::issue)
        return fmt::format("  > {:<26} {:<22} {}, {} sent", event.name, event.detail, event.placement,
                           bytes_text(event.bytes));
    if (event.type == EventType::local)
        return fmt::format("  > {:<26} {:<22} {}", event.name, event.detail, event.placement);
    return {};
}

void print_pass(const std::string& title, const ExplainedPass& pass) {
    if (pass.events.empty()) return;
    fmt::print("{}\n", title);
    for (const Event& event : pass.events)
        if (const std::string line = line_of(event); !line.empty()) fmt::print("{}\n", line);
    std::string sent;
    for (const auto& [collective, bytes] : pass.bytes_sent)
        sent += fmt::format("{}{} {}", sent.empty() ? "" : ", ", collective, bytes_text(bytes));
    fmt::print("    {:.3f} GFLOP; sent: {}\n", pass.flops / 1e9, sent.empty() ? "nothing" : sent);
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

void print_explanation(const Explanation& e) {
    fmt::print("ranks\n");
    for (std::size_t rank = 0; rank < e.coordinates.size(); ++rank)
        fmt::print("  {:>4}  {}{}\n", rank, e.coordinates[rank],
                   static_cast<int>(rank) == e.rank ? "   <- explained here" : "");
    fmt::print("\nparameters (without ZeRO's cut)\n  {:<44} {:<20} {:<22} {}\n", "name", "shape", "placement",
               "gradient");
    for (const ExplainedParameter& p : e.parameters)
        fmt::print("  {:<44} {:<20} {:<22} {}\n", p.name, to_string(p.shape), p.placement, p.gradient_placement);
    fmt::print("\na step of {} microbatch{}; lines with > change a placement\n", e.microbatches,
               e.microbatches == 1 ? "" : "es");
    for (const ExplainedPart& part : e.parts) print_pass(fmt::format("\n{}, forward", range_of(part)), part.forward);
    for (auto part = e.parts.rbegin(); part != e.parts.rend(); ++part)
        print_pass(fmt::format("\n{}, backward", range_of(*part)), part->backward);
    print_pass("\nthe rest of the step", e.rest);
    fmt::print("\nsent by rank {} in a step\n", e.rank);
    if (e.bytes_sent.empty()) fmt::print("  nothing\n");
    for (const auto& [collective, bytes] : e.bytes_sent)
        fmt::print("  {:<20} {:>12}  ({} bytes)\n", collective, bytes_text(bytes), bytes);
}

Json document(const Explanation& e) {
    Json json{{"rank", e.rank}, {"microbatches", e.microbatches}};
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
    "Along dp every parameter is R and its gradient P; ZeRO cuts all of them along dp, between\n"
    "blocks of flat memory. I: the same on all ranks; R: the same, its gradient summed; S(d):\n"
    "dim d is cut. Along pp, cp and ep nothing is cut by this version.\n";

int print_support(bool json) {
    const std::vector<SupportRow> rows = layer_support();
    if (json) {
        Json list = Json::array();
        for (const SupportRow& row : rows)
            list.push(Json{{"family", row.family},
                           {"parameter", row.parameter},
                           {"tp", row.tensor},
                           {"tp_sequence_parallel", row.sequence},
                           {"tp_sequence_parallel_gradient", row.sequence_gradient}});
        Json axes{{"dp", true}, {"tp", true}, {"zero", true}, {"pp", false}, {"cp", false}, {"ep", false}};
        fmt::print("{}\n", Json{{"axes", std::move(axes)}, {"parameters", std::move(list)}}.dump(2));
        return kExitOk;
    }
    fmt::print("{:<42} {:<6} {:<18} {}\n", "parameter", "tp", "tp with sequence", "its gradient");
    for (const SupportRow& row : rows)
        fmt::print("{:<42} {:<6} {:<18} {}\n", row.parameter, row.tensor, row.sequence, row.sequence_gradient);
    fmt::print("\n{}", kSupportNotes);
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
        options.integer("--ranks", ranks_, 1, kMostThreads, "ranks of the layout (default: 1)");
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
        const Job job = model_job(model_, sets_, ranks, kSomeVocabulary);
        const Explanation explanation = explain(job, ranks, static_cast<int>(rank_), comm::TransportKind::inproc, 1);
        if (json)
            fmt::print("{}\n", document(explanation).dump(2));
        else
            print_explanation(explanation);
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
