// metrics.jsonl: one JSON object a line, each with its "step", in rising order. A line is on its way to the disk when
// append() returns, so that a run that is killed keeps what it measured.
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/file.h"
#include "base/json.h"

namespace cleave {

class Metrics {
  public:
    // Starts the file anew, or, when the run resumes with step `resume_at`, keeps the lines of earlier steps: those
    // that the interrupted run wrote after its checkpoint come again, with the same values. A half-written last line is
    // dropped.
    Metrics(const std::filesystem::path& path, std::optional<std::int64_t> resume_at);
    void append(const Json& line);  // must have "step"

  private:
    AppendFile file_;
};

// The lines of a metrics file; a half-written last one is left out. Throws UserError naming file and line of what is
// not a JSON object with a "step".
std::vector<Json> read_metrics(const std::filesystem::path& path);

}  // namespace cleave
