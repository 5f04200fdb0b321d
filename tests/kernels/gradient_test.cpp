// Every backward kernel against central differences of its forward kernel, in f64: with L = sum over outputs y of <w,
// y> for random w, the gradient that the backward kernels give for dy = w is dL / dx.
#include <gtest/gtest.h>

#include "cases.h"

namespace cleave::kernels::test {
namespace {

std::vector<Array> run(const Kernel& kernel, const std::vector<OperandCase>& inputs,
                       const std::vector<OperandCase>& outputs) {
    std::vector<Tensor> in, out;
    for (const auto& [values, role] : inputs) in.emplace_back(values, dtype_of_role(role, DType::f64));
    for (const auto& [values, role] : outputs) out.emplace_back(values, dtype_of_role(role, DType::f64));
    launch(kernel, in, out);
    std::vector<Array> values;
    for (const Tensor& t : out) values.push_back(t.values());
    return values;
}

double dot(const Array& a, const Array& b) {
    double sum = 0;
    for (std::int64_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
}

void expect_gradient(const Pair& pair, const Backward& backward) {
    const Case& c = pair.forward;
    const auto outputs = run(*c.kernel, c.inputs, c.outputs);
    const Array w = normal(c.outputs[0].values.shape, "weights of the outputs");
    std::vector<OperandCase> inputs;
    for (const auto& [kind, index] : backward.inputs)
        inputs.push_back(kind == Source::input    ? c.inputs[index]
                         : kind == Source::output ? OperandCase{outputs[index], c.outputs[index].role}
                                                  : OperandCase{w, c.outputs[index].role});
    std::vector<OperandCase> zeros;
    for (std::size_t i : backward.gradient_of) zeros.push_back({Array(c.inputs[i].values.shape), Role::accumulator});
    const auto gradients = run(*backward.kernel, inputs, zeros);
    for (std::size_t g = 0; g < gradients.size(); ++g) {
        const std::size_t of = backward.gradient_of[g];
        std::vector<OperandCase> moved = c.inputs;
        for (std::int64_t i = 0; i < gradients[g].size(); ++i) {
            const double step = 1e-5;
            auto loss = [&](double by) {
                moved[of].values[i] = c.inputs[of].values[i] + by;
                return dot(w, run(*c.kernel, moved, c.outputs)[0]);
            };
            const double difference = (loss(step) - loss(-step)) / (2 * step);
            moved[of].values[i] = c.inputs[of].values[i];
            ASSERT_NEAR(gradients[g][i], difference, 1e-8 * std::max(1.0, std::abs(difference)))
                << c.name << ", " << backward.kernel->name() << ", input " << of << " at " << i;
        }
    }
}

TEST(Gradient, BackwardKernelsEqualCentralDifferences) {
    const OneThread one_thread;
    for (const Pair& pair : all_pairs())
        for (const Backward& backward : pair.backward) expect_gradient(pair, backward);
}

}  // namespace
}  // namespace cleave::kernels::test
