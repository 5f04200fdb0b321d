// Dropout (Srivastava et al. 2014, inverted): y = x / (1 - p) where an element is kept, 0 where it is dropped, with
// probability p. Which ones are dropped depends on (seed, name, step) and the element's global index alone: element i
// is dropped where word i mod 4 of Philox's counter i / 4 is below p 2^32. dim 0 is the rows of a batch; `first_row` is
// the place of the piece's first row in the batch of the whole step (a microbatch's tensor begins at 0 of itself).
// The mask can be made again in backward (Dropout on dy, it is linear) or kept (DropoutMask, then ApplyMask on both).
#pragma once

#include "base/random.h"
#include "kernels/kernel.h"

namespace cleave::kernels {

struct Dropout : Kernel {  // x -> y, dense
    Dropout(double probability_, const RandomStream& stream_, std::int64_t first_row_)
        : probability(probability_), stream(stream_), first_row(first_row_) {}
    double probability;
    RandomStream stream;
    std::int64_t first_row;

    std::string_view name() const override { return "dropout"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct DropoutMask : Kernel {  // x (its shape alone counts) -> mask (u8): 1 kept, 0 dropped
    DropoutMask(double probability_, const RandomStream& stream_, std::int64_t first_row_)
        : probability(probability_), stream(stream_), first_row(first_row_) {}
    double probability;
    RandomStream stream;
    std::int64_t first_row;

    std::string_view name() const override { return "dropout_mask"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct ApplyMask : Kernel {  // x, mask (u8) -> y = scale x where the mask is not 0
    explicit ApplyMask(double scale_) : scale(scale_) {}
    double scale;

    std::string_view name() const override { return "apply_mask"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

}  // namespace cleave::kernels
