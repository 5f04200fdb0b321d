#include "train/json_fields.h"

namespace cleave {

namespace {

bool same(const Json& a, const Json& b) {
    return a == b || (a.is_number() && b.is_number() && a.number() == b.number());  // 1 and 1.0
}

}  // namespace

const Json* JsonFields::value(std::string_view key) {
    known_.emplace(key);
    const Json* found = json_.find(key);
    return found == nullptr || found->is_null() ? nullptr : found;
}

std::int64_t JsonFields::whole(std::string_view key, std::int64_t most, std::int64_t missing) {
    const Json* found = value(key);
    if (found == nullptr) {
        if (missing != 0) return missing;
        refuse(key, "it is missing; accepted: an integer from 1 to {}", most);
        return 1;
    }
    const std::int64_t* integer = found->integer();
    if (integer != nullptr && *integer >= 1 && *integer <= most) return *integer;
    refuse(key, "found {}; accepted: an integer from 1 to {}", found->dump(), most);
    return 1;
}

double JsonFields::above_zero(const Json* found, std::string_view key, double missing) {
    if (found == nullptr) return missing;
    if (found->is_number() && found->number() > 0) return found->number();
    refuse(key, "found {}; accepted: a number above 0", found->dump());
    return missing;
}

bool JsonFields::truth(std::string_view key, bool missing) {
    const Json* found = value(key);
    if (found == nullptr) return missing;
    if (found->boolean() != nullptr) return *found->boolean();
    refuse(key, "found {}; accepted: true or false", found->dump());
    return missing;
}

void JsonFields::only(std::string_view key, const Json& accepted) {
    const Json* found = value(key);
    if (found != nullptr && !same(*found, accepted))
        refuse(key, "found {}; accepted: {}", found->dump(), accepted.dump());
}

std::string JsonFields::unknown(std::string_view ignored) const {
    std::string keys;
    for (const auto& [key, value] : *json_.members()) {
        if (known_.contains(key) || ignored.find(" " + key + " ") != std::string_view::npos) continue;
        keys += fmt::format("{}{}", keys.empty() ? "" : ", ", key);
    }
    return keys;
}

}  // namespace cleave
