// Element-by-element arithmetic and the kernels that fill a tensor. Operands have one shape and are dense; an output
// may be the storage of an input.
#pragma once

#include <string>

#include "kernels/kernel.h"

namespace cleave::kernels {

struct Add : Declared<"add", "a[*] + b[*] -> y[*]", 1> {
    void run(Views inputs, Views outputs, void* workspace) const override;
};

// y += x. The floating dtypes may differ.
struct Accumulate : Declared<"accumulate", "x[*] -> y[*]"> {
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct Scale : Declared<"scale", "x[*] -> y[*]", 1> {  // y = factor x
    explicit Scale(double by) : factor(by) {}
    double factor;

    void run(Views inputs, Views outputs, void* workspace) const override;
};

// y = x in y's floating dtype, rounded once. Both may be strided.
struct Cast : Declared<"cast", "x[*] -> y[*]"> {
    void run(Views inputs, Views outputs, void* workspace) const override;
};

// y = value everywhere, any dtype. The input is not read (a signature needs one): y itself will do.
struct Fill : Kernel {
    explicit Fill(double with) : value(with) {}
    double value;

    std::string_view name() const override { return "fill"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

// y[i] = mean + standard_deviation * normal(seed, stream, i), i the global row-major index: the same whatever the
// layout. The input is not read: y itself will do.
struct FillNormal : Declared<"fill_normal", "~x[*] -> y[*]"> {
    FillNormal(std::uint64_t seed_, std::string stream_, double standard_deviation_, double mean_ = 0)
        : seed(seed_), stream(std::move(stream_)), standard_deviation(standard_deviation_), mean(mean_) {}
    std::uint64_t seed;
    std::string stream;  // the parameter's name
    double standard_deviation;
    double mean;

    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

}  // namespace cleave::kernels
