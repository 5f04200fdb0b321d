// Kernels are typed: a kernel's signature says which placements of its inputs give which placements of its outputs, and
// refuses all others. It is written like an einsum:
//
//     "x[m.. k..] w[k.. n..] + b[n..] -> y[m.. n..]"
//
//   name[labels]   an operand and its dims. `m..` stands for several dims; how many follows from the operands' ranks and,
//                  where that leaves a choice, from the widths given beside the text. `[*]` is any number of dims.
//   a b            a product: linear in each factor
//   a b + c        a sum of products: the terms are added
//   ~a             a enters nonlinearly (or is a saved value): it may not be P
//   #a             a has no gradient (token ids): R and I are the same for it
//   d!             the kernel works across dim d: it may not be cut
//   -> y[..]       outputs. A label that an output lacks is summed over
//
// The rule, per mesh axis:
//   cut            The cut operands are all cut along one and the same label, by the same cut, and every input that has the
//                  label is among them; the others are R. Outputs that have the label are S, outputs that lack it P.
//                  Where an output lacks it (a sum over the cut), a term without the label has one factor that is P.
//   partial        No operand is cut: in each term exactly one factor is P, the others R (`~` factors may not be P).
//                  Outputs are P. A sum of P and R is refused.
//   whole          All inputs R: outputs R. All I: outputs I. A mix of R and I is refused.
// The duals agree with the backward kernels' own signatures; tests/kernels checks forward and backward of every
// combination against the global result.
// Thread rule: immutable.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "placement/placement.h"

namespace cleave {

class Signature {
  public:
    // `widths`: the number of dims of `..` labels that the ranks alone do not determine.
    explicit Signature(std::string text, std::map<char, int> widths = {});

    struct Operand {
        const Shape* shape;  // global
        const Layout* layout;
    };
    struct Result {
        std::vector<Layout> outputs;
        std::string refused;  // empty, or why
    };
    // Output layouts for these inputs, or the reason why there are none.
    Result apply(std::span<const Operand> inputs, const Mesh& mesh) const;

    int input_count() const { return input_count_; }
    int output_count() const { return static_cast<int>(operands_.size()) - input_count_; }
    const std::string& text() const { return text_; }

  private:
    struct Label {
        char letter;
        bool several;  // `m..`
        bool whole;    // `d!`
    };
    struct Spec {
        std::string name;
        std::vector<Label> labels;
        int term = 0;
        bool any_rank = false;  // [*]
        bool nonlinear = false;
        bool no_gradient = false;
    };
    // One dim of one operand after the expansion of `..`: its letter and its place within the group.
    struct DimLabel {
        char letter;
        int index;
        bool whole;
        bool same(const DimLabel& other) const { return letter == other.letter && index == other.index; }
    };
    using Expanded = std::vector<DimLabel>;

    Spec parse_operand(std::string_view word) const;
    std::optional<std::string> expand(std::span<const Operand> inputs, std::vector<Expanded>& expanded) const;
    std::string apply_axis(AxisId axis, std::span<const Operand> inputs, const std::vector<Expanded>& expanded,
                           const Mesh& mesh, std::vector<Layout>& outputs) const;
    std::string apply_cut(AxisId axis, std::size_t first_cut, std::span<const Operand> inputs,
                          const std::vector<Expanded>& expanded, const Mesh& mesh, std::vector<Layout>& outputs) const;
    std::string apply_partial(AxisId axis, std::span<const Operand> inputs, const Mesh& mesh) const;

    std::string text_;
    std::map<char, int> widths_;
    std::vector<Spec> operands_;  // inputs, then outputs
    int input_count_ = 0;
    int term_count_ = 0;
};

}  // namespace cleave
