// A JSON object read field by field: what is wrong is collected, and what nobody asked for is known in the end.
// Thread rule: one thread; the object outlives the reader.
#pragma once

#include <fmt/format.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace cleave {

class JsonFields {
  public:
    JsonFields(const Json& json, std::string_view source) : json_(json), source_(source) {}

    // The value of a key; null counts as missing, which is nullptr.
    const Json* value(std::string_view key);
    // From 1 to `most`; a missing one is `missing`, or where that is 0 a problem.
    std::int64_t whole(std::string_view key, std::int64_t most, std::int64_t missing = 0);
    double above_zero(std::string_view key, double missing) { return above_zero(value(key), key, missing); }
    double above_zero(const Json* found, std::string_view key, double missing);
    bool truth(std::string_view key, bool missing);
    // A key that must have this value where it is there.
    void only(std::string_view key, const Json& accepted);

    template <class... Args>
    void refuse(std::string_view key, fmt::format_string<Args...> format, Args&&... args) {
        problems_.push_back(fmt::format("{}: {}: {}", source_, key, fmt::format(format, std::forward<Args>(args)...)));
    }
    const std::vector<std::string>& problems() const { return problems_; }
    // "a, b": members that were never asked for and are not in `ignored`, " word word ".
    std::string unknown(std::string_view ignored) const;

  private:
    const Json& json_;
    std::string_view source_;
    std::set<std::string, std::less<>> known_;
    std::vector<std::string> problems_;
};

}  // namespace cleave
