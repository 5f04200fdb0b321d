#include "train/bpe_regex.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/utf8.h"
#include "train/bpe_unicode.h"

namespace cleave {
namespace {

// Unicode's White_Space, which is what the other engine's \s means; PCRE2's has U+180E too.
constexpr std::string_view kSpace =
    R"(\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr int kDeepest = 50;

bool is_ascii_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

class Translator {
  public:
    Translator(std::string_view pattern, std::string_view source) : pattern_(pattern), source_(source) {}

    std::string run() {
        if (pattern_.empty()) fail("it is empty");
        alternatives(false);
        if (!at_end()) fail("unbalanced )");
        return std::move(out_);
    }

  private:
    [[noreturn]] void fail(std::string_view what) const {
        throw UserError(
            "{}: cannot use the pattern '{}': {} (at byte {}): it would not split text as the Hugging Face library "
            "does",
            source_, pattern_, what, at_);
    }
    bool at_end() const { return at_ == pattern_.size(); }
    char peek() const { return at_end() ? '\0' : pattern_[at_]; }
    bool take(std::string_view text) {
        if (!pattern_.substr(at_).starts_with(text)) return false;
        at_ += text.size();
        return true;
    }
    void copy(std::size_t count) {
        out_ += pattern_.substr(at_, count);
        at_ += count;
    }

    void alternatives(bool caseless) {
        if (++depth_ > kDeepest) fail(fmt::format("groups nested deeper than {}", kDeepest));
        sequence(caseless);
        while (take("|")) {
            out_ += '|';
            sequence(caseless);
        }
        --depth_;
    }

    void sequence(bool caseless) {
        while (!at_end() && peek() != '|' && peek() != ')') {
            const bool repeats = atom(caseless);
            quantifier(repeats);
        }
    }

    // Whether it can be repeated.
    bool atom(bool caseless) {
        switch (peek()) {
            case '(': return group(caseless);
            case '[': character_class(caseless); return true;
            case '\\': escape(caseless); return true;
            case '.': fail("'.' is not supported");
            case '^':
            case '$': fail(fmt::format("the anchor '{}' is not supported", peek()));
            case '?':
            case '*':
            case '+':
            case '{':
            case '}':
            case ']': fail(fmt::format("'{}' out of place", peek()));
            default: literal(caseless); return true;
        }
    }

    void literal(bool caseless) {
        const Utf8Step step = utf8_step(pattern_, at_);
        if (!step.valid) fail("not UTF-8");
        if (caseless) check_caseless(step.code_point);
        copy(step.length);
    }

    // Without regard to case, the other engine also takes one character for two ("ss" for U+00DF); these are the pairs
    // of ASCII letters that begin such a folding. Characters beyond ASCII have many of their own.
    void check_caseless(char32_t character) const {
        if (character >= 128) fail("(?i: with characters beyond ASCII is not supported");
        if (at_ == 0) return;
        constexpr std::array<std::string_view, 5> kFolded = {"ss", "ff", "fi", "fl", "st"};
        std::string pair = {pattern_[at_ - 1], static_cast<char>(character)};
        for (char& c : pair) c = is_ascii_letter(c) ? static_cast<char>(c | 0x20) : c;
        if (std::find(kFolded.begin(), kFolded.end(), pair) != kFolded.end())
            fail(fmt::format("'{}' inside (?i: is not supported", pair));
    }

    bool group(bool caseless) {
        const bool look_ahead = take("(?=") ? (out_ += "(?=", true) : take("(?!") ? (out_ += "(?!", true) : false;
        if (!look_ahead) caseless = open_group(caseless);
        alternatives(caseless);
        if (!take(")")) fail("a group is not closed");
        out_ += ')';
        return !look_ahead;
    }

    bool open_group(bool caseless) {
        if (take("(?i:")) {
            out_ += "(?i:";
            return true;
        }
        for (std::string_view open : {"(?:", "(?>"})
            if (take(open)) {
                out_ += open;
                return caseless;
            }
        if (pattern_.substr(at_).starts_with("(?") || pattern_.substr(at_).starts_with("(*"))
            fail(fmt::format("the group '{}' is not supported", pattern_.substr(at_, 4)));
        take("(");
        out_ += "(?:";  // what it captures is not asked for
        return caseless;
    }

    // A category's letter or letters between braces.
    std::string property(bool caseless) {
        const auto close = pattern_.find('}', at_);
        if (peek() != '{' || close == std::string_view::npos) fail("a property needs the form \\p{L}");
        const std::string_view name = pattern_.substr(at_ + 1, close - at_ - 1);
        if (caseless) fail("a property inside (?i: is not supported");
        const auto members = category_members(name);
        if (!members) fail(fmt::format("the property '{}' is not supported, general categories are", name));
        at_ = close + 1;
        return *members;
    }

    void escape(bool caseless) {
        ++at_;
        const char c = peek();
        if (take("p"))
            out_ += fmt::format("[{}]", property(caseless));
        else if (take("P"))
            out_ += fmt::format("[^{}]", property(caseless));
        else if (take("s"))
            out_ += fmt::format("[{}]", kSpace);
        else if (take("S"))
            out_ += fmt::format("[^{}]", kSpace);
        else if (take("d"))
            out_ += fmt::format("[{}]", *category_members("Nd"));
        else
            simple_escape(c);
    }

    void simple_escape(char c) {
        const bool punctuation = c > ' ' && c < 127 && !is_ascii_letter(c) && !(c >= '0' && c <= '9');
        if (!punctuation && c != 'r' && c != 'n' && c != 't' && c != 'f')
            fail(fmt::format("'\\{}' is not supported",
                             is_ascii_letter(c) || c == '\0' ? pattern_.substr(at_, 1) : "..."));
        out_ += '\\';
        copy(1);
    }

    void character_class(bool caseless) {
        take("[");
        out_ += '[';
        if (take("^")) {
            if (caseless) fail("[^ inside (?i: is not supported");
            out_ += '^';
        }
        if (peek() == ']') fail("an empty class");
        while (!take("]")) {
            if (at_end()) fail("a class is not closed");
            class_item(caseless);
        }
        out_ += ']';
    }

    void class_item(bool caseless) {
        if (peek() == '[') fail("'[' inside a class is not supported");
        if (take("&&")) fail("'&&' inside a class is not supported");
        if (peek() == '-') {
            if (pattern_.substr(at_).starts_with("-]") || out_.back() == '[' || out_.ends_with("[^")) {
                out_ += "\\-";
                ++at_;
                return;
            }
            fail("'-' out of place in a class");
        }
        if (peek() == '\\' && class_of_escape(caseless)) return;
        const char32_t first = class_character(caseless);
        if (peek() != '-' || pattern_.substr(at_).starts_with("-]")) return;
        if (caseless) fail("a range inside (?i: is not supported");
        take("-");
        out_ += '-';
        if (class_character(caseless) < first) fail("a range that falls");
    }

    // \s, \d, \p{..} inside a class.
    bool class_of_escape(bool caseless) {
        if (take("\\s"))
            out_ += kSpace;
        else if (take("\\d"))
            out_ += *category_members("Nd");
        else if (take("\\p"))
            out_ += property(caseless);
        else
            return false;
        if (peek() == '-' && !pattern_.substr(at_).starts_with("-]")) fail("'-' behind a set of characters");
        return true;
    }

    char32_t class_character(bool caseless) {
        if (at_end()) fail("a class is not closed");
        if (peek() == '[' || peek() == ']') fail("a range without an end");
        if (take("\\")) {
            const char c = peek();
            simple_escape(c);
            return c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : c == 'f' ? '\f' : static_cast<char32_t>(c);
        }
        const Utf8Step step = utf8_step(pattern_, at_);
        if (!step.valid) fail("not UTF-8");
        if (caseless && !(step.code_point < 128 && is_ascii_letter(peek())))
            fail("a class of other than ASCII letters inside (?i: is not supported");
        if (peek() == '^') out_ += '\\';  // behind an item it is a plain character in both
        copy(step.length);
        return step.code_point;
    }

    void quantifier(bool repeats) {
        const char c = peek();
        if (c != '?' && c != '*' && c != '+' && c != '{') return;
        if (!repeats) fail("a look-ahead cannot be repeated");
        if (c == '{') {
            counts();
        } else {
            copy(1);
            if (peek() == '?' || peek() == '+') copy(1);
        }
        const char next = peek();
        if (next == '?' || next == '*' || next == '+' || next == '{') fail("a repetition of a repetition");
    }

    void counts() {
        const auto close = pattern_.find('}', at_);
        const std::string_view inside =
            close == std::string_view::npos ? std::string_view() : pattern_.substr(at_ + 1, close - at_ - 1);
        const auto comma = inside.find(',');
        const std::string_view low = inside.substr(0, comma);
        const std::string_view high = comma == std::string_view::npos ? low : inside.substr(comma + 1);
        constexpr std::size_t kDigits = 3;
        const auto number = [](std::string_view digits) {
            return digits.size() <= kDigits && digits.find_first_not_of("0123456789") == std::string_view::npos;
        };
        if (low.empty() || !number(low) || !number(high)) fail("repetitions need the form {1,3}, up to 999");
        if (!high.empty() && std::stoi(std::string(high)) < std::stoi(std::string(low))) fail("a range that falls");
        copy(inside.size() + 2);
    }

    std::string_view pattern_;
    std::string_view source_;
    std::string out_;
    std::size_t at_ = 0;
    int depth_ = 0;
};

}  // namespace

std::string pcre_pattern(std::string_view pattern, std::string_view source) {
    return Translator(pattern, source).run();
}

}  // namespace cleave
