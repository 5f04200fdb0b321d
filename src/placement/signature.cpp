#include "placement/signature.h"

#include <algorithm>

namespace cleave {

using Kind = Placement::Kind;

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
    : text_(std::move(text)), widths_(std::move(widths)) {
    bool outputs = false;
    for (std::string_view word : words_of(text_)) {
        if (word == "+") {
            ++term_count_;
        } else if (word == "->") {
            outputs = true;
            input_count_ = static_cast<int>(operands_.size());
        } else {
            operands_.push_back(parse_operand(word));
            operands_.back().term = term_count_;
        }
    }
    ++term_count_;
    CLEAVE_CHECK(outputs && input_count_ > 0 && output_count() > 0, "signature '{}'", text_);
}

Signature::Spec Signature::parse_operand(std::string_view word) const {
    Spec spec;
    for (; !word.empty() && (word.front() == '~' || word.front() == '#'); word.remove_prefix(1))
        (word.front() == '~' ? spec.nonlinear : spec.no_gradient) = true;
    const auto open = word.find('[');
    CLEAVE_CHECK(open != std::string_view::npos && word.back() == ']', "operand '{}' in '{}'", word, text_);
    spec.name = word.substr(0, open);
    for (std::string_view label : words_of(word.substr(open + 1, word.size() - open - 2))) {
        if (label == "*") {
            spec.any_rank = true;
            continue;
        }
        spec.labels.push_back({label[0], label.substr(1) == "..", label.substr(1) == "!"});
        CLEAVE_CHECK(label.size() == 1 || spec.labels.back().several || spec.labels.back().whole, "label '{}' in '{}'",
                     label, text_);
    }
    return spec;
}

// Gives every dim of every operand its label. Returns why that is impossible, if it is.
std::optional<std::string> Signature::expand(std::span<const Operand> inputs, std::vector<Expanded>& expanded) const {
    std::map<char, int> widths = widths_;
    expanded.assign(operands_.size(), {});
    int any_rank = -1;
    for (int i = 0; i < input_count_; ++i) {
        const Spec& spec = operands_[static_cast<std::size_t>(i)];
        const int rank = inputs[static_cast<std::size_t>(i)].shape->rank();
        if (spec.any_rank) {
            if (any_rank >= 0 && any_rank != rank)
                return fmt::format("{} has rank {}, not {}", spec.name, rank, any_rank);
            any_rank = rank;
            continue;
        }
        int known = 0;
        char unknown = 0;
        for (const Label& label : spec.labels) {
            if (!label.several) {
                ++known;
            } else if (auto width = widths.find(label.letter); width != widths.end()) {
                known += width->second;
            } else {
                CLEAVE_CHECK(unknown == 0, "'{}': the widths of {} and {} are not determined", text_, unknown,
                             label.letter);
                unknown = label.letter;
            }
        }
        if (unknown != 0) widths[unknown] = rank - known;
        if (unknown != 0 ? rank < known : rank != known) return fmt::format("{} has rank {}", spec.name, rank);
    }
    for (std::size_t i = 0; i < operands_.size(); ++i) {
        if (operands_[i].any_rank)
            for (int d = 0; d < any_rank; ++d) expanded[i].push_back({'*', d, false});
        for (const Label& label : operands_[i].labels)
            for (int d = 0, n = label.several ? widths[label.letter] : 1; d < n; ++d)
                expanded[i].push_back({label.letter, d, label.whole});
    }
    return std::nullopt;
}

// All inputs that have the label of the first cut input must be cut by it in the same way; the others must be R. Where
// the label is summed over, a term without it would be added once by every rank: it must be a term of the sum itself.
std::string Signature::apply_cut(AxisId axis, std::size_t first_cut, std::span<const Operand> inputs,
                                 const std::vector<Expanded>& expanded, const Mesh& mesh,
                                 std::vector<Layout>& outputs) const {
    const Placement first = inputs[first_cut].layout->at(axis);
    const DimLabel label = expanded[first_cut][static_cast<std::size_t>(first.dim)];
    const std::int64_t extent = (*inputs[first_cut].shape)[first.dim];
    auto find = [&](const Expanded& dims) {
        return std::find_if(dims.begin(), dims.end(), [&](const DimLabel& d) { return d.same(label); });
    };
    std::vector<bool> term_has_label(static_cast<std::size_t>(term_count_), false);
    std::vector<int> partial_factors(static_cast<std::size_t>(term_count_), 0);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Spec& spec = operands_[i];
        const Placement placement = inputs[i].layout->at(axis);
        const auto& dims = expanded[i];
        const auto own = find(dims);
        if (own == dims.end()) {
            const bool neutral = spec.no_gradient && placement.is(Kind::I);
            if (placement.is(Kind::P) && !spec.nonlinear && !spec.no_gradient)
                ++partial_factors[static_cast<std::size_t>(spec.term)];
            else if (!placement.is(Kind::R) && !neutral)
                return fmt::format("{} is {} where {} is cut", spec.name, to_string(placement),
                                   operands_[first_cut].name);
            continue;
        }
        term_has_label[static_cast<std::size_t>(spec.term)] = true;
        if (own->whole) return fmt::format("the kernel works across dim {} of {}", label.letter, spec.name);
        const int dim = static_cast<int>(own - dims.begin());
        if (placement != S(dim, placement.unit) || placement.unit != first.unit)
            return fmt::format("{} is {}, but {} is cut along {}", spec.name, to_string(placement),
                               operands_[first_cut].name, label.letter);
        // Labels may stand for unlike extents (query heads and key heads): then the pieces match only if both divide.
        const std::int64_t other = (*inputs[i].shape)[dim];
        if (other != extent && (other % mesh.size(axis) != 0 || extent % mesh.size(axis) != 0))
            return fmt::format("extents {} and {} along {} are not both multiples of {}", extent, other, label.letter,
                               mesh.size(axis));
    }
    int summed_outputs = 0;
    for (std::size_t o = 0; o < outputs.size(); ++o) {
        const auto& dims = expanded[static_cast<std::size_t>(input_count_) + o];
        const auto own = find(dims);
        summed_outputs += own == dims.end();
        outputs[o] = outputs[o].with(axis, own == dims.end() ? P : S(static_cast<int>(own - dims.begin()), first.unit));
    }
    for (std::size_t term = 0; term < term_has_label.size(); ++term) {
        const bool must_be_partial = summed_outputs > 0 && !term_has_label[term];
        if (partial_factors[term] != (must_be_partial ? 1 : 0))
            return must_be_partial
                       ? fmt::format("a term that lacks {}, which is cut and summed over, is not P", label.letter)
                       : "a factor is P where another is cut";
    }
    return {};
}

std::string Signature::apply_partial(AxisId axis, std::span<const Operand> inputs, const Mesh& mesh) const {
    std::vector<int> partial_factors(static_cast<std::size_t>(term_count_), 0);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Spec& spec = operands_[i];
        const Placement placement = inputs[i].layout->at(axis);
        if (placement.is(Kind::P)) {
            if (spec.nonlinear || spec.no_gradient)
                return fmt::format("{} enters nonlinearly and is P along {}", spec.name, mesh.name(axis));
            ++partial_factors[static_cast<std::size_t>(spec.term)];
        } else if (!placement.is(Kind::R) && !(spec.no_gradient && placement.is(Kind::I))) {
            return fmt::format("{} is {} where another operand is P", spec.name, to_string(placement));
        }
    }
    for (int factors : partial_factors)
        if (factors != 1)
            return factors == 0 ? "a sum of P and R: one term is whole, another partial" : "a product of two P";
    return {};
}

std::string Signature::apply_axis(AxisId axis, std::span<const Operand> inputs, const std::vector<Expanded>& expanded,
                                  const Mesh& mesh, std::vector<Layout>& outputs) const {
    bool any_partial = false;
    bool any_replicate = false;
    bool any_invariant = false;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Placement placement = inputs[i].layout->at(axis);
        if (placement.is(Kind::S)) return apply_cut(axis, i, inputs, expanded, mesh, outputs);
        if (operands_[i].no_gradient && !placement.is(Kind::P)) continue;
        any_partial |= placement.is(Kind::P);
        any_replicate |= placement.is(Kind::R);
        any_invariant |= placement.is(Kind::I);
    }
    if (any_partial) {
        if (std::string reason = apply_partial(axis, inputs, mesh); !reason.empty()) return reason;
        for (Layout& output : outputs) output = output.with(axis, P);
        return {};
    }
    if (any_replicate && any_invariant) return "R and I are mixed: one of them needs a transition first";
    if (any_replicate)
        for (Layout& output : outputs) output = output.with(axis, R);
    return {};
}

Signature::Result Signature::apply(std::span<const Operand> inputs, const Mesh& mesh) const {
    Result result;
    CLEAVE_CHECK(static_cast<int>(inputs.size()) == input_count_, "'{}' has {} inputs, not {}", text_, input_count_,
                 inputs.size());
    std::vector<Expanded> expanded;
    if (auto problem = expand(inputs, expanded)) {
        result.refused = *problem;
        return result;
    }
    result.outputs.resize(static_cast<std::size_t>(output_count()));
    // Axes in the order in which the inputs' cuts name them, so that outputs are cut in the same order.
    std::vector<AxisId> axes;
    for (const Operand& input : inputs)
        for (const auto& entry : *input.layout)
            if (std::find(axes.begin(), axes.end(), entry.axis) == axes.end()) axes.push_back(entry.axis);
    for (const Operand& input : inputs) {
        std::vector<AxisId> own;
        for (const auto& entry : *input.layout)
            if (entry.placement.is(Kind::S)) own.push_back(entry.axis);
        if (!std::is_sorted(own.begin(), own.end(), [&](AxisId a, AxisId b) {
                return std::find(axes.begin(), axes.end(), a) < std::find(axes.begin(), axes.end(), b);
            })) {
            result.refused = "the operands are cut by the same axes in unlike orders";
            return result;
        }
    }
    for (AxisId axis : axes) {
        std::string reason = apply_axis(axis, inputs, expanded, mesh, result.outputs);
        if (!reason.empty()) {
            result.refused = fmt::format("along {}: {}", mesh.name(axis), reason);
            return result;
        }
    }
    return result;
}

}  // namespace cleave
