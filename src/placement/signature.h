// Kernels are typed: a kernel's signature says which placements of its inputs give which placements of its outputs, and
// refuses all others. It is written like an einsum:
//
//     "x[m.. k..] w[k.. n..] + b[n..] -> y[m.. n..]"
//
//   name[labels]   an operand and its dims. `m..` stands for several dims; how many follows from the operands'
//                  ranks and, where that leaves a choice, from the widths given beside the text. `[*]` is any number of
//                  dims.
//   a b            a product: linear in each factor
//   a b + c        a sum of products: the terms are added
//   ~a             a enters nonlinearly (or is a saved value): it may not be P
//   #a             a has no gradient (token ids): R and I are the same for it
//   d!             the kernel works across dim d: it may not be cut
//   d?             of an output: the kernel makes the piece of d that its caller holds, S where the rule gives R or I
//   -> y[..]       outputs. A label that an output lacks is summed over
//
// The rule, per mesh axis. Every term of the sum has a placement, and the terms must agree:
//   cut            The cut inputs are all cut along one and the same label, by the same cut, and every input that
//                  has the label is among them. Outputs that have the label are S, outputs that lack it are P. The
//                  other factors of a term with the label are R. A term without the label is added whole where the
//                  outputs are S (all its factors R: a bias) and must itself be partial where they are P.
//   partial        No operand is cut: in each term exactly one factor is P, the others R (`~` factors may not be P).
//                  Outputs are P. A sum of P and R is refused.
//   whole          All inputs R: outputs R. All I: outputs I. A mix of R and I is refused.
// Where one label stands for unlike extents (query heads and key heads), all of them must divide by the number of
// pieces.
//
// The duals agree with the backward kernels' own signatures; tests/kernels checks forward and backward of every
// combination against the global result.
// Thread rule: immutable.
#pragma once

#include <array>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "placement/placement.h"

namespace cleave {

class Signature {
  public:
    static constexpr std::size_t kMaxInputs = 8;
    static constexpr std::size_t kMaxOutputs = 8;
    static constexpr std::size_t kMaxLetters = 32;

    // `widths`: the number of dims of `..` labels that the ranks alone do not determine.
    explicit Signature(std::string text, std::map<char, int> widths = {});

    struct Operand {
        const Shape* shape;  // global
        const Layout* layout;
    };
    // The layouts of the outputs, held inline: apply() runs in every launch and does not allocate.
    class Outputs {
      public:
        explicit Outputs(std::size_t count = 0) : count_(count) { CLEAVE_CHECK(count <= kMaxOutputs); }
        std::size_t size() const { return count_; }
        const Layout& operator[](std::size_t i) const { return layouts_[checked(i)]; }
        Layout& operator[](std::size_t i) { return layouts_[checked(i)]; }
        const Layout* begin() const { return layouts_.data(); }
        const Layout* end() const { return layouts_.data() + count_; }

      private:
        std::size_t checked(std::size_t i) const {
            CLEAVE_CHECK(i < count_, "output {} of {}", i, count_);
            return i;
        }
        std::array<Layout, kMaxOutputs> layouts_;
        std::size_t count_;
    };
    struct Result {
        Outputs outputs;
        std::string refused;  // empty, or why
    };
    // Output layouts for these inputs, or the reason why there are none.
    Result apply(std::span<const Operand> inputs, const Mesh& mesh) const;
    // Whether a tensor of layout `held` can take output number `output`, to which the rule gives `given`: they are
    // equal, or differ by cuts of dims `d?`.
    bool accepts(std::size_t output, const Layout& given, const Layout& held) const;

    int input_count() const { return static_cast<int>(input_count_); }
    int output_count() const { return static_cast<int>(operands_.size() - input_count_); }
    const std::string& text() const { return text_; }

  private:
    friend class SignatureCase;  // one application of the rule (signature_rule.cpp)

    struct Label {
        std::size_t letter;  // index in letters_
        bool whole;          // `d!`
        bool any_piece;      // `d?`
    };
    struct Spec {
        std::string name;
        std::vector<Label> labels;
        std::size_t term = 0;
        bool nonlinear = false;
        bool no_gradient = false;
    };
    struct Letter {
        char name;     // '*' for [*]
        bool several;  // `m..`
        int width;     // the number of dims it stands for; -1 until the ranks are known
    };
    // The rank of input `operand` determines the width of `letter`, all its other letters being known by then.
    struct WidthStep {
        std::size_t operand;
        std::size_t letter;
    };

    Spec parse_operand(std::string_view word, bool outputs);
    std::size_t parse_letter(char name, bool several);
    void plan_widths();

    std::string text_;
    std::map<char, int> given_widths_;
    std::vector<Letter> letters_;
    std::vector<Spec> operands_;  // inputs, then outputs
    std::vector<WidthStep> width_steps_;
    std::size_t input_count_ = 0;
    std::size_t term_count_ = 1;
};

}  // namespace cleave
