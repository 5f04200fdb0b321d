#include "train/key.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "base/json.h"
#include "base/nearest.h"
#include "base/words.h"

namespace cleave {
namespace {

using std::string_view;

std::string number_text(double value) {
    std::string text = real_text(value);  // the shortest that reads back the same bits
    if (text.find_first_of(".en") == std::string::npos) text += ".0";
    return text;
}

bool inside(double value, const NumberRange& range) {
    return (range.least_itself ? value >= range.least : value > range.least) &&
           (range.most_itself ? value <= range.most : value < range.most);
}

std::string bound(double value) {
    constexpr double kReadable = 1e13;  // longer rows of digits are read by nobody
    const bool digits = std::abs(value) < kReadable && value == std::floor(value);
    return digits ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
}

// " from 0 to 10", " above 0, at most 10", " above 0, below 1".
std::string range_text(const NumberRange& range) {
    std::string text;
    if (range.least > -kNoLimit)
        text += fmt::format(" {} {}", range.least_itself ? "from" : "above", bound(range.least));
    const std::string_view until = !range.most_itself ? ", below" : range.least_itself ? " to" : ", at most";
    if (range.most < kNoLimit) text += fmt::format("{} {}", until, bound(range.most));
    return text;
}

std::string join(std::span<const string_view> all) {
    std::string text;
    for (string_view word : all) text += fmt::format("{}{}", text.empty() ? "" : ", ", word);
    return text;
}

std::string refusal(const Key& key, const Value& found) {
    std::string text = fmt::format("found {}; accepted: {}", shortened(value_text(found)), accepted(key));
    const auto* word = std::get_if<std::string>(&found);
    const auto* field = std::get_if<WordField>(&key.field);
    const bool number = std::holds_alternative<double*>(key.field);
    if (const auto full = word != nullptr && number ? number_in_full(*word) : std::nullopt)
        text += fmt::format(", with digits on both sides of its point: {}", *full);
    if (word != nullptr && field != nullptr) {
        const auto near = nearest(*word, field->words);
        if (!near.empty()) text += fmt::format(" (did you mean \"{}\"?)", near);
    }
    return text;
}

// One overload a kind of field; false: the value is of another type.
bool store(std::string* field, const Value& value) {
    const auto* text = std::get_if<std::string>(&value);
    if (text != nullptr) *field = *text;
    return text != nullptr;
}
bool store(bool* field, const Value& value) {
    const auto* truth = std::get_if<bool>(&value);
    if (truth != nullptr) *field = *truth;
    return truth != nullptr;
}
bool store(double* field, const Value& value) {
    if (const auto* whole = std::get_if<std::int64_t>(&value)) {
        *field = static_cast<double>(*whole);
        return true;
    }
    const auto* real = std::get_if<double>(&value);
    if (real != nullptr) *field = *real;
    return real != nullptr && std::isfinite(*real);
}
// 1e3 is as good as 1000, up to where reals still tell integers apart (so that a range's "1e+16" can be given).
std::optional<std::int64_t> whole_number(const Value& value) {
    constexpr double kMostWhole = 1e16;
    if (const auto* whole = std::get_if<std::int64_t>(&value)) return *whole;
    const auto* real = std::get_if<double>(&value);
    if (real == nullptr || !(std::abs(*real) <= kMostWhole) || *real != std::floor(*real)) return std::nullopt;
    return static_cast<std::int64_t>(*real);
}
template <class Integer>
bool store(Integer* field, const Value& value) {
    const auto whole = whole_number(value);
    if (!whole || !std::in_range<Integer>(*whole)) return false;
    *field = static_cast<Integer>(*whole);
    return true;
}
bool store(WordField field, const Value& value) {
    const auto* word = std::get_if<std::string>(&value);
    const auto at = word == nullptr ? field.words.end() : std::find(field.words.begin(), field.words.end(), *word);
    if (at == field.words.end()) return false;
    *field.value = static_cast<std::uint8_t>(at - field.words.begin());
    return true;
}

Value load(const std::string* field) {
    return *field;
}
Value load(const bool* field) {
    return *field;
}
Value load(const double* field) {
    return *field;
}
Value load(const std::int64_t* field) {
    return *field;
}
Value load(const int* field) {
    return std::int64_t{*field};
}
Value load(const WordField& field) {
    return std::string(field.words[*field.value]);
}

}  // namespace

std::optional<std::string> assign(const Key& key, const Value& value) {
    const Value before = value_of(key);
    const bool stored = std::visit([&](const auto& field) { return store(field, value); }, key.field);
    if (stored && !range_problem(key)) return std::nullopt;
    std::visit([&](const auto& field) { store(field, before); }, key.field);
    return refusal(key, value);
}

Value value_of(const Key& key) {
    return std::visit([](const auto& field) { return load(field); }, key.field);
}

std::string value_text(const Value& value) {
    if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
    if (const auto* whole = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *whole);
    if (const auto* real = std::get_if<double>(&value)) return number_text(*real);
    return Json(std::get<std::string>(value)).dump();  // JSON's escapes are TOML's
}

std::string_view type_name(const Key& key) {
    constexpr std::array<string_view, 6> kNames = {"text", "true/false", "number", "integer", "integer", "word"};
    return kNames[key.field.index()];
}

std::string accepted(const Key& key) {
    if (const auto* field = std::get_if<WordField>(&key.field)) return "one of " + join(field->words);
    if (std::holds_alternative<bool*>(key.field)) return "true or false";
    if (std::holds_alternative<std::string*>(key.field)) return "a text in quotes";
    return (std::holds_alternative<double*>(key.field) ? "a number" : "an integer") + range_text(key.range);
}

std::string explained(const Key& key) {
    const bool number = type_name(key) == "integer" || type_name(key) == "number";
    if (!number) return std::string(key.meaning);
    return fmt::format("{} ({}{})", key.meaning, type_name(key), range_text(key.range));
}

std::optional<std::string> number_in_full(std::string_view text) {
    const auto digit = [&](std::size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
    const auto point = text.find('.');
    if (point == std::string_view::npos) return std::nullopt;
    const bool before = point > 0 && digit(point - 1);
    const bool after = digit(point + 1);
    if (before == after) return std::nullopt;  // a number as it should be, or none
    const std::size_t gap = before ? point + 1 : point;
    const std::string full = fmt::format("{}0{}", text.substr(0, gap), text.substr(gap));
    char* end = nullptr;
    std::strtod(full.c_str(), &end);
    const bool plain = text.find_first_not_of("+-.0123456789eE") == std::string_view::npos;
    return plain && *end == '\0' ? std::optional(full) : std::nullopt;
}

std::optional<std::string> range_problem(const Key& key) {
    const Value value = value_of(key);
    const auto* whole = std::get_if<std::int64_t>(&value);
    const auto* real = std::get_if<double>(&value);
    if (whole == nullptr && real == nullptr) return std::nullopt;
    const double number = whole != nullptr ? static_cast<double>(*whole) : *real;
    if (inside(number, key.range)) return std::nullopt;
    return refusal(key, value);
}

}  // namespace cleave
