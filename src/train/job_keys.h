// The fields of a Job as keys: name, meaning, accepted values, and the field itself. Reading a run file, `cleave
// config`, `cleave init`, the effective configuration, checkpoints and messages are all made from this one list. Thread
// rule: a Key points into its Job; use it as that Job.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "train/job.h"
#include "train/key.h"

namespace cleave {

// Every key, section by section, in the order in which a person would read them.
std::vector<Key> keys_of(Job& job);
std::string_view section_title(std::string_view section);

Json to_json(const Job& job);  // {"train.batch": 12, ...}
Job job_from_json(const Json& json, std::string_view source);

// The keys whose values differ, as "train.lr: 0.001 in the checkpoint, 0.002 now".
struct ResumeDifferences {
    std::vector<std::string> refused;
    std::vector<std::string> announced;
};
ResumeDifferences resume_differences(const Job& saved, const Job& now);

}  // namespace cleave
