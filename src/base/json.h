// JSON values: headers of files, metrics, what --json prints. Objects keep the order in which members were added.
// Writing is our own; reading uses nlohmann-json, included in json.cpp alone because it is heavy.
// Numbers: integers are std::int64_t, others are written in the shortest form that reads back the same bits; NaN and
// the infinities, which JSON lacks, are written as null. Thread rule: a value.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cleave {

class Json {
  public:
    using Array = std::vector<Json>;
    using Member = std::pair<std::string, Json>;
    using Object = std::vector<Member>;

    Json() = default;  // null
    Json(bool value) : value_(value) {}
    template <std::integral T>
    requires(!std::same_as<T, bool>) Json(T value) : value_(static_cast<std::int64_t>(value)) {}
    Json(double value) : value_(value) {}
    Json(const char* text) : value_(std::string(text)) {}
    Json(std::string_view text) : value_(std::string(text)) {}
    Json(std::string text) : value_(std::move(text)) {}
    Json(Array items) : value_(std::move(items)) {}
    Json(std::initializer_list<Member> members);  // Json{{"step", 3}, {"loss", 0.5}}
    static Json object() {
        Json json;
        json.value_ = Object{};
        return json;
    }
    static Json array() { return Json(Array{}); }

    // Throws UserError: "<source>: not valid JSON: <where and why>". Nesting deeper than 64 is refused.
    static Json parse(std::string_view text, std::string_view source);
    // One line, or indented by `indent` spaces a level where that is above 0. Strings that are not UTF-8 have their bad
    // bytes replaced by U+FFFD.
    std::string dump(int indent = 0) const;

    // Building: a member is added at the end, an existing one replaced.
    Json& set(std::string_view key, Json value);
    Json& push(Json value);
    // As set(), for a name that the object does not have: no search.
    void append(std::string name, Json value);

    bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
    // The value if it is of that type, else nullptr. number() also accepts an integer.
    const bool* boolean() const { return std::get_if<bool>(&value_); }
    const std::int64_t* integer() const { return std::get_if<std::int64_t>(&value_); }
    const std::string* string() const { return std::get_if<std::string>(&value_); }
    const Array* items() const { return std::get_if<Array>(&value_); }
    const Object* members() const { return std::get_if<Object>(&value_); }
    bool is_number() const { return integer() != nullptr || std::holds_alternative<double>(value_); }
    double number(double otherwise = 0) const;
    // The member of an object, else nullptr (also where this is no object).
    const Json* find(std::string_view key) const;

    friend bool operator==(const Json&, const Json&) = default;

  private:
    std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> value_;
};

}  // namespace cleave
