// Activations, element by element.
//   Gelu     y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))       (GPT-2's gelu_new; Hendrycks and Gimpel 2016)
//   Relu     y = max(x, 0); its derivative at 0 is taken as 0
//   SwiGlu   y = gate / (1 + exp(-gate)) * up                        (Shazeer 2020, "GLU variants improve transformer")
// All operands have one shape and one dtype and are dense; an output may be the storage of an input.
#pragma once

#include "kernels/kernel.h"

namespace cleave::kernels {

struct Gelu : Kernel {  // x -> y
    std::string_view name() const override { return "gelu"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct GeluBackward : Kernel {  // dy, x -> dx
    std::string_view name() const override { return "gelu_backward"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct Relu : Kernel {  // x -> y
    std::string_view name() const override { return "relu"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct ReluBackward : Kernel {  // dy, x -> dx; y serves as x as well
    std::string_view name() const override { return "relu_backward"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct SwiGlu : Kernel {  // gate, up -> y
    std::string_view name() const override { return "swiglu"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct SwiGluBackward : Kernel {  // dy, gate, up -> dgate, dup
    std::string_view name() const override { return "swiglu_backward"; }
    const Signature& signature() const override;
    Cost cost(Views inputs, Views outputs) const override;
    void run(Views inputs, Views outputs, void* workspace) const override;
};

}  // namespace cleave::kernels
