// Views that are not plain: strided operands, storage shared between input and output, no rows at all.
#include <gtest/gtest.h>

#include "cases.h"
#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/loss.h"
#include "kernels/optimizer.h"
#include "kernels/rotary.h"

namespace cleave::kernels::test {
namespace {

// The kernel on strided operands gives the bits that it gives on dense ones.
void expect_same_bits(const Kernel& kernel, const std::vector<Array>& inputs, const std::vector<Array>& outputs,
                      const std::vector<DType>& dtypes, const std::vector<std::int64_t>& gaps) {
    std::vector<Tensor> dense_in, dense_out, in, out;
    for (std::size_t i = 0; i < inputs.size() + outputs.size(); ++i) {
        const bool is_input = i < inputs.size();
        const Array& array = is_input ? inputs[i] : outputs[i - inputs.size()];
        (is_input ? dense_in : dense_out).emplace_back(array, dtypes[i]);
        (is_input ? in : out).emplace_back(array, dtypes[i], gaps[i]);
    }
    launch(kernel, dense_in, dense_out);
    launch(kernel, in, out);
    for (std::size_t o = 0; o < out.size(); ++o)
        EXPECT_EQ(out[o].values().values, dense_out[o].values().values) << kernel.name() << ", output " << o;
}

TEST(Views, AttentionAndRotaryAndCastTakeStridedOperands) {
    const Shape q{2, 21, 4, 20}, k{2, 21, 2, 20};
    const Array lse({2, 4, 21});
    for (DType t : {DType::f64, DType::f32, DType::bf16}) {
        const DType a = t == DType::bf16 ? DType::f32 : t;
        expect_same_bits(Attention({.scale = 0.2}), {normal(q, "q"), normal(k, "k"), normal(k, "v")}, {Array(q), lse},
                         {t, t, t, t, a}, {4, 3, 40, 1, 0});
        expect_same_bits(
            AttentionBackward({.scale = 0.2}),
            {normal(q, "do"), normal(q, "q"), normal(k, "k"), normal(k, "v"), normal(q, "o"), normal(lse.shape, "l")},
            {Array(q), Array(k), Array(k)}, {t, t, t, t, t, a, t, t, t}, {5, 4, 3, 40, 1, 0, 2, 7, 11});
        expect_same_bits(Rotary(1e4), {normal(q, "x")}, {Array(q)}, {t, t}, {3, 9});
        expect_same_bits(Cast{}, {normal(q, "x")}, {Array(q)}, {t, DType::f32}, {3, 0});
        expect_same_bits(Cast{}, {normal(q, "x")}, {Array(q)}, {DType::f32, t}, {0, 5});
    }
}

TEST(Views, PackedQueriesKeysAndValuesAreSlicesOfOneTensor) {
    const Shape packed{2, 9, 3, 4, 8}, one{2, 9, 4, 8};
    Tensor tensor(normal(packed, "qkv"), DType::f32);
    Tensor o(Array(one), DType::f32), lse(Array({2, 4, 9}), DType::f32);
    std::vector<View> slices;
    std::vector<Tensor> parts, dense_out;
    const Array all = tensor.values();
    for (std::int64_t i = 0; i < 3; ++i) {
        View view = tensor.view();
        view.data = tensor.view().as<float>() + i * 32;
        view.shape = view.global = one;
        view.offset = Shape::filled(4, 0);
        view.strides = {9 * 96, 96, 8, 1};
        slices.push_back(view);
        Array part(one);
        for (std::int64_t j = 0; j < part.size(); ++j) part[j] = all[j / 32 * 96 + i * 32 + j % 32];
        parts.emplace_back(part, DType::f32);
    }
    dense_out.emplace_back(Array(one), DType::f32);
    dense_out.emplace_back(Array({2, 4, 9}), DType::f32);
    const Attention attention({.scale = 0.3});
    launch(attention, parts, dense_out);
    const std::vector<View> out{o.view(), lse.view()};
    std::vector<float> workspace(static_cast<std::size_t>(attention.workspace_bytes(slices, out)) / 4 + 16);
    void* aligned = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(workspace.data()) + 63) / 64 * 64);
    attention.run(slices, out, aligned);
    EXPECT_EQ(o.values().values, dense_out[0].values().values);
    EXPECT_EQ(lse.values().values, dense_out[1].values().values);
}

// One input may be the storage of an output.
void expect_in_place(const Kernel& kernel, const std::vector<OperandCase>& inputs, std::size_t shared,
                     const Shape& output) {
    std::vector<Tensor> in, out;
    for (const auto& [values, role] : inputs) in.emplace_back(values, dtype_of_role(role, DType::f32));
    out.emplace_back(Array(output), DType::f32);
    launch(kernel, in, out);
    std::vector<View> views;
    for (Tensor& t : in) views.push_back(t.view());
    std::vector<std::byte> workspace(
        static_cast<std::size_t>(kernel.workspace_bytes(views, std::vector{views[shared]}) + 64));
    void* aligned = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(workspace.data()) + 63) / 64 * 64);
    kernel.run(views, std::vector{views[shared]}, aligned);
    EXPECT_EQ(in[shared].values().values, out[0].values().values) << kernel.name();
}

TEST(Views, OutputsMayBeTheStorageOfAnInput) {
    const Shape s{3, 45};
    const OperandCase a{normal(s, "a")}, b{normal(s, "b")};
    expect_in_place(Gelu{}, {a}, 0, s);
    expect_in_place(GeluBackward{}, {a, b}, 1, s);
    expect_in_place(Relu{}, {a}, 0, s);
    expect_in_place(ReluBackward{}, {a, b}, 1, s);
    expect_in_place(SwiGlu{}, {a, b}, 0, s);
    expect_in_place(Add{}, {a, b}, 1, s);
    expect_in_place(Scale(3), {a}, 0, s);
    expect_in_place(CrossEntropyBackward(0.5),
                    {{Array(Shape{}, 2)}, a, {Array({3}, 4)}, {integers({3}, "l", 45), Role::tokens}}, 1, s);
    expect_in_place(Rotary(1e4), {{normal({2, 3, 2, 6}, "x")}}, 0, {2, 3, 2, 6});
}

// Every dim of extent `from` becomes 0.
Array without(const Array& array, std::int64_t from) {
    Shape shape = array.shape;
    for (int d = 0; d < shape.rank(); ++d)
        if (shape[d] == from) shape[d] = 0;
    Array cut(shape);
    if (cut.size() == array.size()) cut.values = array.values;
    return cut;
}

TEST(Views, NoRowsAreNoWork) {
    int emptied = 0;
    for (DType t : {DType::f64, DType::f32, DType::bf16})
        for (const Case& c : all_cases(false)) {
            std::vector<Tensor> in, out;
            std::vector<Array> kept;
            for (const auto& [values, role] : c.inputs)
                in.emplace_back(without(values, kBatch), dtype_of_role(role, t));
            for (const auto& [values, role] : c.outputs)
                out.emplace_back(without(values, kBatch), dtype_of_role(role, t));
            for (const Tensor& tensor : out) kept.push_back(tensor.values());
            launch(*c.kernel, in, out);
            emptied += in[0].view().elements() == 0;
            for (std::size_t o = 0; o < out.size(); ++o)
                for (std::int64_t i = 0; i < kept[o].size(); ++i) {
                    const bool written = std::isnan(kept[o][i]);  // not a sum that is added to
                    const double expected = written ? 0.0 : kept[o][i];
                    EXPECT_EQ(out[o].values()[i], expected) << c.name << " in " << name_of(t);
                }
        }
    EXPECT_GT(emptied, 0);
}

}  // namespace
}  // namespace cleave::kernels::test
