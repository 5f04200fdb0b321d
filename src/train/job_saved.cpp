// A job as a checkpoint keeps it, and what a resumed run may change (job_keys.h).
#include "base/error.h"
#include "train/job_keys.h"
#include "train/spelt_out.h"

namespace cleave {

Json to_json(const Job& job) {
    Job copy = job;
    Json json = Json::object();
    for (const Key& key : keys_of(copy))
        json.set(key.name, std::visit([](const auto& value) { return Json(value); }, value_of(key)));
    return json;
}

Job job_from_json(const Json& json, std::string_view source) {
    Job job;
    for (const Key& key : keys_of(job)) {
        const Json* saved = json.find(key.name);
        if (saved == nullptr) continue;  // written before there was such a key: what its default says held then
        std::optional<Value> value;
        if (saved->boolean() != nullptr)
            value = *saved->boolean();
        else if (saved->integer() != nullptr)
            value = *saved->integer();
        else if (saved->is_number())
            value = saved->number();
        else if (saved->string() != nullptr)
            value = *saved->string();
        const auto problem = value ? assign(key, *value) : "found neither text nor number; accepted: " + accepted(key);
        if (problem) throw UserError("{}: its configuration's {}: {}", source, key.name, *problem);
    }
    return job;
}

ResumeDifferences resume_differences(const Job& saved, const Job& now) {
    Job before = saved;
    Job after = now;
    const auto old_keys = keys_of(before);
    const auto new_keys = keys_of(after);
    Job before_in_full = spelt_out(saved);
    Job after_in_full = spelt_out(now);
    const auto old_in_full = keys_of(before_in_full);
    const auto new_in_full = keys_of(after_in_full);
    ResumeDifferences differences;
    for (std::size_t i = 0; i < old_keys.size(); ++i) {
        const Value was = value_of(old_keys[i]);
        const Value is = value_of(new_keys[i]);
        const bool same = was == is || value_of(old_in_full[i]) == value_of(new_in_full[i]);
        const OnResume kind = new_keys[i].on_resume;
        if (same || kind == OnResume::accept || kind == OnResume::bits) continue;
        if (kind == OnResume::refuse)
            differences.refused.push_back(fmt::format(
                "{}: found {}, but the checkpoint to resume from has {}; accepted: {}, or --overwrite instead of "
                "--resume, which begins anew",
                new_keys[i].name, value_text(is), value_text(was), value_text(was)));
        else
            differences.announced.push_back(
                fmt::format("{}: {} in the checkpoint, {} now", new_keys[i].name, value_text(was), value_text(is)));
    }
    return differences;
}

}  // namespace cleave
