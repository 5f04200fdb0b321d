// A kernel is one piece of arithmetic on one rank's pieces of its operands. It declares, beside its code, its placement
// rule (signature), its cost (flops and bytes) and its scratch. It never allocates, never communicates, and its sums do
// not depend on the size of the team that runs it (the products of oneDNN excepted, ARCHITECTURE.md "Determinism").
//
// A kernel is a small value that holds its attributes; it is made for each launch:
//     engine.launch(kernels::Gelu{}, {x}, {y});
// Thread rule: const; run() uses the calling rank's OpenMP team.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

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
    // Bytes of scratch that run() needs, at most; a multiple of 64. Called with virtual views as well.
    virtual std::int64_t workspace_bytes(Views, Views) const { return 0; }
    // `workspace`: workspace_bytes() bytes, 64-byte aligned. Checks shapes and dtypes (CLEAVE_CHECK).
    virtual void run(Views inputs, Views outputs, void* workspace) const = 0;
};

// The usual cost of a memory-bound kernel: every operand once, `flops_per_element` for each element of the first
// output.
Cost elementwise_cost(Views inputs, Views outputs, double flops_per_element);

}  // namespace cleave::kernels
