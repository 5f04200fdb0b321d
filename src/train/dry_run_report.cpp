#include "train/dry_run_report.h"

#include <fmt/format.h>

#include <numeric>

#include "base/words.h"
#include "base/wrap.h"

namespace cleave {

std::string bytes_text(std::int64_t bytes) {
    const auto b = static_cast<double>(bytes);
    if (b >= 1e9) return fmt::format("{:.2f} GB", b / 1e9);
    if (b >= 1e6) return fmt::format("{:.2f} MB", b / 1e6);
    if (b >= 1e3) return fmt::format("{:.2f} kB", b / 1e3);
    return fmt::format("{} B", bytes);
}

namespace {

// Two plans that differ in nothing but their rank are shown once.
bool alike(const RankPlan& a, const RankPlan& b) {
    return a.peak_bytes == b.peak_bytes && a.at_peak == b.at_peak && a.extent_bytes == b.extent_bytes &&
           a.bytes_sent == b.bytes_sent && a.flops == b.flops && a.kernel_bytes == b.kernel_bytes &&
           a.launches == b.launches;
}

std::string plan_text(const RankPlan& plan) {
    std::string text = fmt::format("  memory at the peak of a run    {:>12}  ({})\n", bytes_text(plan.peak_bytes),
                                   counted(plan.peak_bytes, "byte"));
    for (int kind = 0; kind < kMemoryKinds; ++kind) {
        const std::int64_t bytes = plan.at_peak[static_cast<std::size_t>(kind)];
        if (bytes > 0)
            text += fmt::format("    {:<28} {:>12}\n", name_of(static_cast<MemoryKind>(kind)), bytes_text(bytes));
    }
    text += fmt::format("  address range of the arena     {:>12}\n", bytes_text(plan.extent_bytes));
    text += fmt::format("  sent in a step\n");
    if (plan.bytes_sent.empty()) text += "    nothing\n";
    for (const auto& [collective, bytes] : plan.bytes_sent)
        text += fmt::format("    {:<28} {:>12}  ({})\n", collective, bytes_text(bytes), counted(bytes, "byte"));
    text += fmt::format("  computed in a step             {:>8.3f} GFLOP in {} kernels, which move {}\n",
                        plan.flops / 1e9, plan.launches, bytes_text(static_cast<std::int64_t>(plan.kernel_bytes)));
    return text;
}

}  // namespace

std::string notes_text(const std::vector<std::string>& notes) {
    constexpr std::size_t kColumns = 80;
    std::string text;
    for (const std::string& note : notes) text += wrapped("note: " + note, "  ", kColumns) + "\n";
    return text;
}

Json to_json(const std::vector<std::string>& notes) {
    Json json = Json::array();
    for (const std::string& note : notes) json.push(note);
    return json;
}

std::string dry_run_text(const std::vector<RankPlan>& plans, const std::vector<std::string>& notes) {
    std::string text = notes_text(notes);
    for (std::size_t first = 0; first < plans.size();) {
        std::size_t last = first;
        while (last + 1 < plans.size() && alike(plans[first], plans[last + 1])) ++last;
        text += first == last ? fmt::format("rank {} ({})\n", first, plans[first].coordinates)
                              : fmt::format("ranks {} to {} ({} to {}), each\n", first, last, plans[first].coordinates,
                                            plans[last].coordinates);
        text += plan_text(plans[first]);
        first = last + 1;
    }
    return text;
}

std::int64_t total_of(const BytesByKind& bytes) {
    return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

Json to_json(const BytesByKind& bytes) {
    Json json = Json::object();
    for (int kind = 0; kind < kMemoryKinds; ++kind)
        json.set(name_of(static_cast<MemoryKind>(kind)), bytes[static_cast<std::size_t>(kind)]);
    return json;
}

Json dry_run_json(const std::vector<RankPlan>& plans, const std::vector<std::string>& notes) {
    Json ranks = Json::array();
    for (const RankPlan& plan : plans) {
        Json sent = Json::object();
        for (const auto& [collective, bytes] : plan.bytes_sent) sent.set(collective, bytes);
        Json rank = Json::object();
        rank.set("rank", plan.rank).set("coordinates", plan.coordinates).set("peak_total_bytes", plan.peak_bytes);
        rank.set("peak_bytes", to_json(plan.at_peak))
            .set("arena_extent_bytes", plan.extent_bytes)
            .set("bytes_sent", sent);
        rank.set("flops", plan.flops).set("kernel_bytes", plan.kernel_bytes).set("kernels", plan.launches);
        ranks.push(std::move(rank));
    }
    Json out = Json::object();
    out.set("ranks", std::move(ranks)).set("notes", to_json(notes));
    return out;
}

}  // namespace cleave
