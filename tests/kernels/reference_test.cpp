// Every kernel against its plain reference, in each dtype; its independence of the team's size; strided views; no rows.
#include <gtest/gtest.h>

#include <omp.h>

#include "cases.h"

namespace cleave::kernels::test {
namespace {

double unit_of(DType dtype) {
    switch (dtype) {
        case DType::f64: return 0x1p-53;
        case DType::f32: return 0x1p-24;
        case DType::bf16: return 0x1p-8;
        default: return 0;
    }
}

std::vector<Tensor> tensors_of(const std::vector<OperandCase>& operands, DType dtype) {
    std::vector<Tensor> tensors;
    for (const OperandCase& operand : operands)
        tensors.emplace_back(operand.values, dtype_of_role(operand.role, dtype));
    return tensors;
}

std::vector<Array> values_of(const std::vector<Tensor>& tensors) {
    std::vector<Array> values;
    for (const Tensor& tensor : tensors) values.push_back(tensor.values());
    return values;
}

double largest(const Array& array) {
    double top = 0;
    for (double v : array.values) top = std::max(top, std::abs(v));
    return top;
}

// |result - reference| <= roundings u_computed max |reference| + u_stored |reference|: sums are taken in the
// accumulator's dtype, and the result is rounded once to its own. Factors rounded to bf16 add their part to results in
// bf16.
void expect_near(const Array& result, const Array& reference, DType stored, DType dtype, const Case& c) {
    const double unit = c.roundings * unit_of(dtype_of_role(Role::accumulator, dtype)) +
                        (stored == DType::bf16 ? c.bf16_roundings * unit_of(stored) : 0);
    const double computed = unit * std::max(1.0, largest(reference));
    ASSERT_EQ(result.size(), reference.size());
    for (std::int64_t i = 0; i < result.size(); ++i)
        ASSERT_NEAR(result[i], reference[i], computed + unit_of(stored) * std::abs(reference[i])) << "at " << i;
}

void expect_reference(const Case& c, DType dtype) {
    std::vector<Tensor> inputs = tensors_of(c.inputs, dtype);
    std::vector<Tensor> outputs = tensors_of(c.outputs, dtype);
    const auto reference = c.reference(values_of(inputs), values_of(outputs));
    launch(*c.kernel, inputs, outputs);
    ASSERT_EQ(reference.size(), outputs.size());
    for (std::size_t o = 0; o < outputs.size(); ++o) {
        SCOPED_TRACE(fmt::format("{} in {}, output {}", c.name, name_of(dtype), o));
        expect_near(outputs[o].values(), reference[o], outputs[o].view().dtype, dtype, c);
    }
}

class InEveryDType : public testing::TestWithParam<DType> {};

TEST_P(InEveryDType, SmallCasesEqualTheReference) {
    for (const Case& c : all_cases(false)) expect_reference(c, GetParam());
}

TEST_P(InEveryDType, LargeCasesEqualTheReference) {
    for (const Case& c : all_cases(true)) expect_reference(c, GetParam());
}

TEST_P(InEveryDType, TeamSizeDoesNotChangeBits) {
    const int team = omp_get_max_threads();
    for (const Case& c : all_cases(true)) {
        if (c.team_changes_bits && GetParam() != DType::f64) continue;  // oneDNN's
        std::vector<Tensor> inputs = tensors_of(c.inputs, GetParam());
        std::vector<Tensor> first = tensors_of(c.outputs, GetParam());
        omp_set_num_threads(1);
        launch(*c.kernel, inputs, first);
        for (int threads : {2, 3, 5}) {
            omp_set_num_threads(threads);
            std::vector<Tensor> outputs = tensors_of(c.outputs, GetParam());
            launch(*c.kernel, inputs, outputs);
            for (std::size_t o = 0; o < outputs.size(); ++o)
                EXPECT_EQ(
                    std::memcmp(outputs[o].bytes(), first[o].bytes(), static_cast<std::size_t>(first[o].byte_count())),
                    0)
                    << c.name << ", output " << o << " with " << threads << " threads";
        }
    }
    omp_set_num_threads(team);
}

INSTANTIATE_TEST_SUITE_P(Kernels, InEveryDType, testing::Values(DType::f64, DType::f32, DType::bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace cleave::kernels::test
