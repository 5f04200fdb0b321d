// The placement rule of signature.h, applied to one launch. It runs in every launch: nothing here allocates unless the
// inputs are refused.
#include <algorithm>
#include <array>
#include <cstdint>

#include "placement/signature.h"

namespace cleave {

using Kind = Placement::Kind;

namespace {

// A dim of the iteration space: the letter, and the place within the dims that the letter stands for.
using DimLabel = std::uint8_t;
static_assert(Signature::kMaxLetters * kMaxRank <= 256);

// The dims of one operand, `..` expanded.
struct Dims {
    std::array<DimLabel, kMaxRank> labels;
    std::array<bool, kMaxRank> whole;
    int rank = 0;

    void push_back(DimLabel label, bool is_whole) {
        CLEAVE_CHECK(rank < kMaxRank);
        labels[static_cast<std::size_t>(rank)] = label;
        whole[static_cast<std::size_t>(rank++)] = is_whole;
    }
    // The dim that has the label, or -1.
    int find(DimLabel label) const {
        for (int d = 0; d < rank; ++d)
            if (labels[static_cast<std::size_t>(d)] == label) return d;
        return -1;
    }
};

// The axes that the inputs name, each once.
class AxisList {
  public:
    void add(AxisId axis) {
        if (position(axis) < count_) return;
        CLEAVE_CHECK(count_ < axes_.size(), "more than {} axes in one launch", axes_.size());
        axes_[count_++] = axis;
    }
    std::size_t position(AxisId axis) const {
        return static_cast<std::size_t>(std::find(begin(), end(), axis) - begin());
    }
    const AxisId* begin() const { return axes_.data(); }
    const AxisId* end() const { return axes_.data() + count_; }

  private:
    std::array<AxisId, 16> axes_{};
    std::size_t count_ = 0;
};

}  // namespace

// Methods that return a text return why the inputs are refused, or an empty text.
class SignatureCase {
  public:
    SignatureCase(const Signature& signature, std::span<const Signature::Operand> inputs, const Mesh& mesh,
                  Signature::Outputs& outputs)
        : signature_(signature), inputs_(inputs), mesh_(mesh), outputs_(outputs) {}

    std::string apply() {
        if (std::string reason = expand(); !reason.empty()) return reason;
        collect_axes();
        if (std::string reason = check_order(); !reason.empty()) return reason;
        for (AxisId axis : axes_)
            if (std::string reason = apply_axis(axis); !reason.empty())
                return fmt::format("along {}: {}", mesh_.name(axis), reason);
        return {};
    }

  private:
    const Signature::Spec& spec(std::size_t input) const { return signature_.operands_[input]; }
    Placement at(std::size_t input, AxisId axis) const { return inputs_[input].layout->at(axis); }
    const Dims& output_dims(std::size_t output) const { return dims_[inputs_.size() + output]; }

    // R, or without a gradient, so that I is the same.
    bool replicated(std::size_t input, AxisId axis) const {
        const Placement placement = at(input, axis);
        return placement.is(Kind::R) || (placement.is(Kind::I) && spec(input).no_gradient);
    }

    // Gives every dim of every operand its label.
    std::string expand() {
        std::array<int, Signature::kMaxLetters> widths{};  // 0 while unknown
        for (std::size_t i = 0; i < signature_.letters_.size(); ++i)
            widths[i] = std::max(signature_.letters_[i].width, 0);
        auto total = [&](const Signature::Spec& operand) {
            int rank = 0;
            for (const auto& label : operand.labels) rank += widths[label.letter];
            return rank;
        };
        for (const auto& [input, letter] : signature_.width_steps_)
            widths[letter] = std::max(inputs_[input].shape->rank() - total(spec(input)), 0);
        for (std::size_t i = 0; i < inputs_.size(); ++i)
            if (const int rank = inputs_[i].shape->rank(); rank != total(spec(i)))
                return fmt::format("{} has rank {}, not {}", spec(i).name, rank, total(spec(i)));
        for (std::size_t i = 0; i < signature_.operands_.size(); ++i)
            for (const auto& label : signature_.operands_[i].labels)
                for (int d = 0; d < widths[label.letter]; ++d)
                    dims_[i].push_back(static_cast<DimLabel>(label.letter * kMaxRank + static_cast<std::size_t>(d)),
                                       label.whole);
        return {};
    }

    // Cuts first, in the order in which the inputs name them: the outputs are cut in the same order.
    void collect_axes() {
        for (bool cuts : {true, false})
            for (const auto& input : inputs_)
                for (const auto& entry : *input.layout)
                    if (entry.placement.is(Kind::S) == cuts) axes_.add(entry.axis);
    }

    // The axes that cut one dim do so in the same order in every input.
    std::string check_order() const {
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            std::array<std::size_t, kMaxRank> next{};  // the least position that the next cut of the dim may have
            for (const auto& [axis, placement] : *inputs_[i].layout) {
                if (!placement.is(Kind::S)) continue;
                CLEAVE_CHECK(placement.dim >= 0 && placement.dim < dims_[i].rank, "{} is cut along dim {} of {}",
                             spec(i).name, int{placement.dim}, dims_[i].rank);
                auto& least = next[static_cast<std::size_t>(placement.dim)];
                if (axes_.position(axis) < least)
                    return fmt::format("the axes cut {} in another order than the inputs before it", spec(i).name);
                least = axes_.position(axis) + 1;
            }
        }
        return {};
    }

    std::string apply_axis(AxisId axis) {
        bool any_partial = false;
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            const Placement placement = at(i, axis);
            if (placement.is(Kind::S)) return apply_cut(axis, i);
            any_partial |= placement.is(Kind::P);
        }
        return any_partial ? apply_partial(axis) : apply_whole(axis);
    }

    std::string apply_cut(AxisId axis, std::size_t first_cut) {
        const Placement first = at(first_cut, axis);
        const DimLabel label = dims_[first_cut].labels[static_cast<std::size_t>(first.dim)];
        std::array<bool, Signature::kMaxInputs> term_is_cut{};
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            const int dim = dims_[i].find(label);
            if (dim < 0) continue;
            term_is_cut[spec(i).term] = true;
            if (at(i, axis) != S(dim, first.unit))
                return fmt::format("{} is {}, but {} is {}, which cuts {}", spec(i).name, to_string(at(i, axis)),
                                   spec(first_cut).name, to_string(first), letter(label));
            if (dims_[i].whole[static_cast<std::size_t>(dim)])
                return fmt::format("the kernel works across dim {} of {}, which is cut", letter(label), spec(i).name);
            if (!same_pieces(i, dim, first_cut, first))
                return fmt::format("the pieces of {} and {} along {} do not match", spec(first_cut).name, spec(i).name,
                                   letter(label));
        }
        bool any_shard = false;
        bool any_partial = false;
        for (std::size_t o = 0; o < outputs_.size(); ++o) {
            const int dim = output_dims(o).find(label);
            if (dim >= 0 && output_dims(o).whole[static_cast<std::size_t>(dim)])
                return fmt::format("the kernel works across dim {} of its output, which is cut", letter(label));
            outputs_[o].set(axis, dim >= 0 ? S(dim, first.unit) : P);
            (dim >= 0 ? any_shard : any_partial) = true;
        }
        for (std::size_t term = 0; term < signature_.term_count_; ++term) {
            if (term_is_cut[term] || !any_partial) {
                if (std::string reason = check_replicated(axis, term, label); !reason.empty()) return reason;
            } else {
                if (any_shard) return "a term without the cut label, where one output is S and another P";
                if (std::string reason = check_partial(axis, term); !reason.empty()) return reason;
            }
        }
        return {};
    }

    // The factors of the term that lack the label are R.
    std::string check_replicated(AxisId axis, std::size_t term, DimLabel label) const {
        for (std::size_t i = 0; i < inputs_.size(); ++i)
            if (spec(i).term == term && dims_[i].find(label) < 0 && !replicated(i, axis))
                return fmt::format("{} is {} where {} is cut", spec(i).name, to_string(at(i, axis)), letter(label));
        return {};
    }

    // Two operands cut along one label hold matching pieces: equal extents, or both divide.
    bool same_pieces(std::size_t input, int dim, std::size_t first_cut, Placement first) const {
        const std::int64_t extent = (*inputs_[first_cut].shape)[first.dim];
        const std::int64_t other = (*inputs_[input].shape)[dim];
        if (extent == other) return true;
        std::int64_t pieces = first.unit;
        for (const auto& [axis, placement] : *inputs_[input].layout)
            if (placement.is(Kind::S) && placement.dim == dim) pieces *= mesh_.size(axis);
        return extent % pieces == 0 && other % pieces == 0;
    }

    std::string apply_partial(AxisId axis) {
        for (std::size_t term = 0; term < signature_.term_count_; ++term)
            if (std::string reason = check_partial(axis, term); !reason.empty()) return reason;
        for (std::size_t o = 0; o < outputs_.size(); ++o) outputs_[o].set(axis, P);
        return {};
    }

    // Exactly one factor of the term is P, and enters linearly; the others are R.
    std::string check_partial(AxisId axis, std::size_t term) const {
        int partial_factors = 0;
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            if (spec(i).term != term) continue;
            if (at(i, axis).is(Kind::P)) {
                if (spec(i).nonlinear || spec(i).no_gradient)
                    return fmt::format("{} is P, but the kernel is not linear in it", spec(i).name);
                ++partial_factors;
            } else if (!replicated(i, axis)) {
                return fmt::format("{} is {} where the output is P", spec(i).name, to_string(at(i, axis)));
            }
        }
        if (partial_factors == 0) return "a sum of P and R: one term is partial, another whole";
        return partial_factors == 1 ? "" : "a product of two P";
    }

    std::string apply_whole(AxisId axis) {
        bool any_replicate = false;
        bool any_invariant = false;
        bool any_gradient = false;
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            if (spec(i).no_gradient) continue;
            any_gradient = true;
            (at(i, axis).is(Kind::R) ? any_replicate : any_invariant) = true;
        }
        if (any_replicate && any_invariant) return "R and I are mixed: one of them needs a transition first";
        // Without any gradient R and I are the same; the axis was named, so some input is R.
        if (any_replicate || !any_gradient)
            for (std::size_t o = 0; o < outputs_.size(); ++o) outputs_[o].set(axis, R);
        return {};
    }

    char letter(DimLabel label) const { return signature_.letters_[label / kMaxRank].name; }

    const Signature& signature_;
    std::span<const Signature::Operand> inputs_;
    const Mesh& mesh_;
    Signature::Outputs& outputs_;
    std::array<Dims, Signature::kMaxInputs + Signature::kMaxOutputs> dims_;
    AxisList axes_;
};

Signature::Result Signature::apply(std::span<const Operand> inputs, const Mesh& mesh) const {
    CLEAVE_CHECK(inputs.size() == input_count_, "'{}' has {} inputs, not {}", text_, input_count_, inputs.size());
    Result result{Outputs(operands_.size() - input_count_), {}};
    result.refused = SignatureCase(*this, inputs, mesh, result.outputs).apply();
    return result;
}

}  // namespace cleave
