#include "train/metrics.h"

#include <fmt/format.h>

#include "base/error.h"

namespace cleave {
namespace {

constexpr std::size_t kMostMetricsBytes = std::size_t{1} << 36;  // a line a step, for very many steps

// Keeps what comes before `resume_at`, then opens the file for more.
AppendFile open_metrics(const std::filesystem::path& path, std::optional<std::int64_t> resume_at) {
    if (!resume_at || !std::filesystem::exists(path)) return AppendFile(path, AppendFile::Mode::truncate);
    std::string kept;
    for (const Json& line : read_metrics(path))
        if (*line.find("step")->integer() < *resume_at) kept += line.dump() + "\n";
    write_file(path, kept);
    return AppendFile(path, AppendFile::Mode::append);
}

}  // namespace

Metrics::Metrics(const std::filesystem::path& path, std::optional<std::int64_t> resume_at)
    : file_(open_metrics(path, resume_at)) {}

void Metrics::append(const Json& line) {
    CLEAVE_CHECK(line.find("step") != nullptr && line.find("step")->integer() != nullptr);
    file_.append(line.dump() + "\n");
}

std::vector<Json> read_metrics(const std::filesystem::path& path) {
    const std::string text = read_text_file(path, kMostMetricsBytes);
    std::vector<Json> lines;
    for (std::size_t at = 0, end = text.find('\n'); end != std::string::npos; at = end + 1, end = text.find('\n', at)) {
        const std::string place = fmt::format("{}:{}", path.string(), lines.size() + 1);
        constexpr std::string_view kRemedy =
            "accepted: an object with a whole \"step\"; remove the line, or the file: "
            "the losses are for reading, the run does not need them";
        try {
            lines.push_back(Json::parse(std::string_view(text).substr(at, end - at), place));
        } catch (const UserError& error) {
            throw UserError("{}; {}", error.what(), kRemedy);
        }
        const Json* step = lines.back().find("step");
        if (step == nullptr || step->integer() == nullptr)
            throw UserError("{}: a line without \"step\"; {}", place, kRemedy);
    }
    return lines;
}

}  // namespace cleave
