// The fields of a Job as keys: name, meaning, accepted values, and the field itself. Reading a run file, `cleave
// config`, `cleave init`, the effective configuration, checkpoints and messages are all made from this one list. Thread
// rule: a Key points into its Job; use it as that Job.
#pragma once

#include <functional>
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

inline constexpr double kMostTemperature = 1e16;  // of sample.temperature

// Defaults that follow from other keys, where they are not set themselves: a short run has a short warm-up, a low
// learning rate ends lower still.
void follow_other_keys(Job& job, const std::function<bool(std::string_view)>& is_set);

Json to_json(const Job& job);  // {"train.batch": 12, ...}
Job job_from_json(const Json& json, std::string_view source);

// The keys whose values differ: as "model.layers: found 5, but the checkpoint has 4; accepted: ..." where that is
// refused, as "train.lr: 0.001 in the checkpoint, 0.002 now" where it is announced.
struct ResumeDifferences {
    std::vector<std::string> refused;
    std::vector<std::string> announced;
};
ResumeDifferences resume_differences(const Job& saved, const Job& now);

}  // namespace cleave
