// One setting of a run: its name, meaning, accepted values and the field that holds it.
// Thread rule: a Key points into its Job; use it as that Job.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace cleave {

// An enum's field: its value is the index of its word.
struct WordField {
    std::uint8_t* value;
    std::span<const std::string_view> words;
};

struct NumberRange {
    double least;
    double most;               // kNoLimit: none (for what is not a number)
    bool least_itself = true;  // false: above `least`
    bool most_itself = true;   // false: below `most`
};
inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// What a resumed run makes of a value other than its checkpoint's.
enum class OnResume : std::uint8_t {
    refuse,    // the state would not fit
    announce,  // goes on, and the log says that results differ from an unbroken run
    bits,      // goes on with the same sums in another order: resume_bits.h says whether bits can differ
    accept,    // no influence on what is learnt
};

struct Key {
    std::string_view name;  // "section.key", or "key" alone, which stands above all sections
    std::string_view meaning;
    std::variant<std::string*, bool*, double*, std::int64_t*, int*, WordField> field;
    NumberRange range;  // of numbers
    OnResume on_resume;

    std::string_view section() const {
        const auto dot = name.find('.');
        return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
    }
    std::string_view key() const { return name.substr(name.find('.') + 1); }
};

using Value = std::variant<bool, std::int64_t, double, std::string>;
// Sets the field. Returns what is wrong where the value has another type or is out of range: "found ..., accepted:
// ...".
std::optional<std::string> assign(const Key& key, const Value& value);
Value value_of(const Key& key);
std::string value_text(const Value& value);  // as TOML (and --set) write it
std::string_view type_name(const Key& key);  // "text", "word", "true/false", "integer", "number"
std::string accepted(const Key& key);        // "an integer from 1 to 65536"
std::string explained(const Key& key);       // the meaning, and the range of a number
std::optional<std::string> range_problem(const Key& key);
// ".1", "5." and "-.5e3", which TOML does not take, as it writes them: "0.1", "5.0", "-0.5e3"; none for anything else.
std::optional<std::string> number_in_full(std::string_view text);

}  // namespace cleave
