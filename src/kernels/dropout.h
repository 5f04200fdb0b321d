// Dropout (Srivastava et al. 2014, inverted): y = x / (1 - p) where an element is kept, 0 where it is dropped, with
// probability p. Which ones are dropped depends on (seed, name, step) and the element's global index alone: element i
// is dropped where word i mod 4 of Philox's counter i / 4 is below p 2^32. dim 0 is the rows of a batch; `row_shift`
// is added to a row's place in the tensor and gives its place in the whole step's batch, of which the tensor may hold a
// microbatch.
// The mask can be made again in backward (Dropout on dy, it is linear) or kept (DropoutMask, then ApplyMask on both).
#pragma once

#include "base/random.h"
#include "kernels/kernel.h"

namespace cleave::kernels {

struct Dropout : Declared<"dropout", "x[*] -> y[*]", 2> {  // dense
    Dropout(double probability_, const RandomStream& stream_, std::int64_t row_shift_)
        : probability(probability_), stream(stream_), row_shift(row_shift_) {}
    double probability;
    RandomStream stream;
    std::int64_t row_shift;

    void run(Views inputs, Views outputs, void* workspace) const override;
};

// Of x its shape alone counts. mask (u8): 1 kept, 0 dropped.
struct DropoutMask : Declared<"dropout_mask", "#x[*] -> mask[*]"> {
    DropoutMask(double probability_, const RandomStream& stream_, std::int64_t row_shift_)
        : probability(probability_), stream(stream_), row_shift(row_shift_) {}
    double probability;
    RandomStream stream;
    std::int64_t row_shift;

    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

// y = scale x where the mask is not 0, dense
struct ApplyMask : Declared<"apply_mask", "x[*] #mask[*] -> y[*]", 1> {
    explicit ApplyMask(double scale_) : scale(scale_) {}
    double scale;

    void run(Views inputs, Views outputs, void* workspace) const override;
};

}  // namespace cleave::kernels
