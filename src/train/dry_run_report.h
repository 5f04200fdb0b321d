// What --dry-run prints.
// Thread rule: pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "train/dry_run.h"

namespace cleave {

// `notes`: those of train/layout_notes.h.
std::string dry_run_text(const std::vector<RankPlan>& plans, const std::vector<std::string>& notes = {});
Json dry_run_json(const std::vector<RankPlan>& plans, const std::vector<std::string>& notes = {});
std::string notes_text(const std::vector<std::string>& notes);  // "note: ..." lines of at most 80 columns
Json to_json(const std::vector<std::string>& notes);
std::string bytes_text(std::int64_t bytes);  // "1.50 GB"
Json to_json(const BytesByKind& bytes);
std::int64_t total_of(const BytesByKind& bytes);  // {"parameters": ..., ...}

}  // namespace cleave
