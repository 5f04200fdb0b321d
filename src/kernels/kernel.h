// A kernel is one piece of arithmetic on one rank's pieces of its operands. It declares, beside its code, its placement
// rule (signature), its cost (flops and bytes) and its scratch. It never allocates, never communicates, and its sums do
// not depend on the size of the team that runs it (the products of oneDNN excepted, ARCHITECTURE.md "Determinism").
//
// A kernel is a small value that holds its attributes; it is made for each launch:
//     engine.launch(kernels::Gelu{}, {x}, {y});
// Thread rule: const; run() uses the calling rank's OpenMP team.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/gemm.h"
#include "kernels/view.h"
#include "placement/signature.h"

namespace cleave::kernels {

struct Cost {
    double flops = 0;  // a multiply-add is 2
    double bytes = 0;  // read and written once each, caches taken as perfect
};

using Views = std::span<const View>;

class Kernel {
  public:
    virtual ~Kernel() = default;
    virtual std::string_view name() const = 0;
    virtual const Signature& signature() const = 0;
    // Local shapes in, local cost out. Views may be virtual: data is not to be followed.
    virtual Cost cost(Views inputs, Views outputs) const = 0;
    // The matrix products among its arithmetic, local shapes: the part of its time that has a bound to be measured.
    virtual std::vector<Product> products(Views, Views) const { return {}; }
    // Bytes of scratch that run() needs, at most; a multiple of 64. Called with virtual views as well.
    virtual std::int64_t workspace_bytes(Views, Views) const { return 0; }
    // `workspace`: workspace_bytes() bytes, 64-byte aligned. Checks shapes and dtypes (CLEAVE_CHECK).
    virtual void run(Views inputs, Views outputs, void* workspace) const = 0;
};

// The usual cost of a memory-bound kernel: every operand once, `flops_per_element` for each element of the first
// output.
Cost elementwise_cost(Views inputs, Views outputs, double flops_per_element);

// A text that a template takes.
template <std::size_t Size>
struct Text {
    constexpr Text(const char (&text)[Size]) { std::copy_n(text, Size, characters); }  // NOLINT: to be written "..."
    constexpr std::string_view view() const { return {characters, Size - 1}; }
    char characters[Size]{};
};

// A kernel whose name and placement rule are constants; its operands can be read from the rule. It has the usual cost
// unless it states its own.
template <Text Name, Text Rule, int FlopsPerElement = 0>
struct Declared : Kernel {
    std::string_view name() const override { return Name.view(); }
    const Signature& signature() const override {
        static const Signature signature{std::string(Rule.view())};
        return signature;
    }
    Cost cost(Views inputs, Views outputs) const override { return elementwise_cost(inputs, outputs, FlopsPerElement); }
};

}  // namespace cleave::kernels
