#include "placement/signature.h"

#include <algorithm>

namespace cleave {

namespace {

std::vector<std::string_view> words_of(std::string_view text) {
    // Splits at blanks outside brackets.
    std::vector<std::string_view> words;
    std::size_t begin = 0;
    int depth = 0;
    for (std::size_t i = 0; i <= text.size(); ++i) {
        if (i < text.size() && text[i] == '[') ++depth;
        if (i < text.size() && text[i] == ']') --depth;
        if (i == text.size() || (text[i] == ' ' && depth == 0)) {
            if (i > begin) words.push_back(text.substr(begin, i - begin));
            begin = i + 1;
        }
    }
    return words;
}

}  // namespace

Signature::Signature(std::string text, std::map<char, int> widths)
    : text_(std::move(text)), given_widths_(std::move(widths)) {
    bool outputs = false;
    for (std::string_view word : words_of(text_)) {
        if (word == "+") {
            CLEAVE_CHECK(!outputs && !operands_.empty() && operands_.back().term + 1 == term_count_,
                         "empty term in '{}'", text_);
            ++term_count_;
        } else if (word == "->") {
            CLEAVE_CHECK(!outputs, "two arrows in '{}'", text_);
            outputs = true;
            input_count_ = operands_.size();
        } else {
            operands_.push_back(parse_operand(word, outputs));
            operands_.back().term = term_count_ - 1;
        }
    }
    CLEAVE_CHECK(outputs && input_count_ > 0 && output_count() > 0, "signature '{}'", text_);
    CLEAVE_CHECK(operands_[input_count_ - 1].term + 1 == term_count_, "empty term in '{}'", text_);
    CLEAVE_CHECK(input_count_ <= kMaxInputs && operands_.size() - input_count_ <= kMaxOutputs, "'{}' is too long",
                 text_);
    plan_widths();
}

Signature::Spec Signature::parse_operand(std::string_view word, bool outputs) {
    Spec spec;
    for (; !word.empty() && (word.front() == '~' || word.front() == '#'); word.remove_prefix(1))
        (word.front() == '~' ? spec.nonlinear : spec.no_gradient) = true;
    const auto open = word.find('[');
    CLEAVE_CHECK(open != std::string_view::npos && open > 0 && word.back() == ']', "operand '{}' in '{}'", word, text_);
    spec.name = word.substr(0, open);
    for (std::string_view label : words_of(word.substr(open + 1, word.size() - open - 2))) {
        const std::string_view mark = label.substr(1);
        CLEAVE_CHECK(mark.empty() || mark == ".." || mark == "!" || (mark == "?" && outputs), "label '{}' in '{}'",
                     label, text_);
        const std::size_t letter = parse_letter(label.front(), mark == ".." || label == "*");
        for (const Label& other : spec.labels)
            CLEAVE_CHECK(other.letter != letter, "'{}' names {} twice in '{}'", spec.name, label.front(), text_);
        spec.labels.push_back({letter, mark == "!", mark == "?"});
    }
    return spec;
}

std::size_t Signature::parse_letter(char name, bool several) {
    for (std::size_t i = 0; i < letters_.size(); ++i) {
        if (letters_[i].name != name) continue;
        CLEAVE_CHECK(letters_[i].several == several, "'{}' uses {} with and without ..", text_, name);
        return i;
    }
    const auto given = given_widths_.find(name);
    CLEAVE_CHECK(several || given == given_widths_.end(), "'{}': {} is one dim", text_, name);
    letters_.push_back({name, several, !several ? 1 : given != given_widths_.end() ? given->second : -1});
    CLEAVE_CHECK(letters_.size() <= kMaxLetters, "'{}' has too many letters", text_);
    return letters_.size() - 1;
}

bool Signature::accepts(std::size_t output, const Layout& given, const Layout& held) const {
    Layout expected = given;
    const Spec& spec = operands_[input_count_ + output];
    for (const auto& [axis, placement] : held) {
        if (!placement.is(Placement::Kind::S)) continue;
        const bool whole = given.at(axis).is(Placement::Kind::R) || given.at(axis).is(Placement::Kind::I);
        const auto dim = static_cast<std::size_t>(placement.dim);
        // Letters of several dims may not be marked, so that labels up to a marked one are dims.
        if (whole && dim < spec.labels.size() && spec.labels[dim].any_piece) expected.set(axis, placement);
    }
    return expected == held;
}

// An input with one letter of unknown width determines it; that may make another input's last letter known.
void Signature::plan_widths() {
    std::vector<bool> known;
    for (const Letter& letter : letters_) known.push_back(letter.width >= 0);
    for (bool progress = true; progress;) {
        progress = false;
        for (std::size_t i = 0; i < input_count_; ++i) {
            const auto& labels = operands_[i].labels;
            auto unknown = [&](const Label& label) { return !known[label.letter]; };
            if (std::count_if(labels.begin(), labels.end(), unknown) != 1) continue;
            const std::size_t letter = std::find_if(labels.begin(), labels.end(), unknown)->letter;
            width_steps_.push_back({i, letter});
            known[letter] = true;
            progress = true;
        }
    }
    for (std::size_t i = 0; i < letters_.size(); ++i)
        CLEAVE_CHECK(known[i], "'{}': the ranks do not determine the width of {}", text_, letters_[i].name);
}

}  // namespace cleave
