// What --dry-run prints.
// Thread rule: pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "train/dry_run.h"

namespace cleave {

std::string dry_run_text(const std::vector<RankPlan>& plans);
Json dry_run_json(const std::vector<RankPlan>& plans);
std::string bytes_text(std::int64_t bytes);  // "1.50 GB"
Json to_json(const BytesByKind& bytes);
std::int64_t total_of(const BytesByKind& bytes);  // {"parameters": ..., ...}

}  // namespace cleave
