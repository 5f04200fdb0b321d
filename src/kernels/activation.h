// Activations, element by element.
//   Gelu     y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))       (GPT-2's gelu_new; Hendrycks and Gimpel 2016)
//   Relu     y = max(x, 0); its derivative at 0 is taken as 0
//   SwiGlu   y = gate / (1 + exp(-gate)) * up                        (Shazeer 2020, "GLU variants improve transformer")
// All operands have one shape and one dtype and are dense; an output may be the storage of an input.
#pragma once

#include "kernels/kernel.h"

namespace cleave::kernels {

struct Gelu : Declared<"gelu", "~x[*] -> y[*]", 20> {
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct GeluBackward : Declared<"gelu_backward", "dy[*] ~x[*] -> dx[*]", 30> {
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct Relu : Declared<"relu", "~x[*] -> y[*]", 1> {
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct ReluBackward : Declared<"relu_backward", "dy[*] ~x[*] -> dx[*]", 1> {  // y serves as x as well
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct SwiGlu : Declared<"swiglu", "~gate[*] ~up[*] -> y[*]", 18> {
    void run(Views inputs, Views outputs, void* workspace) const override;
};

struct SwiGluBackward : Declared<"swiglu_backward", "dy[*] ~gate[*] ~up[*] -> dgate[*] dup[*]", 26> {
    void run(Views inputs, Views outputs, void* workspace) const override;
};

}  // namespace cleave::kernels
