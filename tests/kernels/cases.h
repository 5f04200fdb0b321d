// Every kernel with operands and reference, small (for the combinations of placements) or large (so that several
// threads work on it): the tests run over this table.
#pragma once

#include <functional>
#include <limits>

#include "tensors.h"

namespace cleave::kernels::test {

// The dtype of an operand, given the dtype T that a test runs in.
enum class Role {
    value,        // T
    accumulator,  // T's accumulator
    tokens,       // i32
    norm,         // f64
    copy,         // bf16
    mask,         // u8
};

inline DType dtype_of_role(Role role, DType dtype) {
    switch (role) {
        case Role::value: return dtype;
        case Role::accumulator: return dtype == DType::bf16 ? DType::f32 : dtype;
        case Role::tokens: return DType::i32;
        case Role::norm: return DType::f64;
        case Role::copy: return DType::bf16;
        case Role::mask: return DType::u8;
    }
    return dtype;
}

struct OperandCase {
    Array values;  // of an output: what it holds before
    Role role = Role::value;
};

struct Case {
    std::string name;
    std::shared_ptr<const Kernel> kernel;
    std::vector<OperandCase> inputs;
    std::vector<OperandCase> outputs;
    std::function<std::vector<Array>(const std::vector<Array>& inputs, const std::vector<Array>& outputs)> reference;
    // Rounding errors of a sum, in units in the last place of the largest result; stated where sums are long.
    double roundings = 8;
    // The same, of bf16, where factors that are made on the way (probabilities) are rounded to bf16 before a product.
    double bf16_roundings = 0;
    bool team_changes_bits = false;  // oneDNN's products
};

// The batch of the small cases, an extent that no other dim has.
inline constexpr std::int64_t kBatch = 7;

const std::vector<Case>& all_cases(bool large);  // made once: their random numbers take a second

// A forward kernel and the kernels that give its gradients.
struct Source {
    enum Kind { input, output, gradient } kind;  // of the forward kernel; `gradient`: of its output
    std::size_t index;
};
struct Backward {
    std::shared_ptr<const Kernel> kernel;
    std::vector<Source> inputs;
    std::vector<std::size_t> gradient_of;  // output j is the gradient of this input of the forward kernel
};
struct Pair {
    Case forward;
    std::vector<Backward> backward;
};

std::vector<Pair> all_pairs();

}  // namespace cleave::kernels::test
