// Combining against a reference by recursion, for every dtype, number of sources and destinations, alignment and
// length.
#include "comm/combine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ranks.h"

namespace cleave::comm::test {
namespace {

template <class T>
void combine_and_compare(ReduceOp op, int k, int m, std::int64_t count, std::int64_t shift, bool streaming) {
    std::vector<std::vector<T>> inputs;
    std::vector<Source> sources;
    for (int r = 0; r < k; ++r) {
        inputs.push_back(input_of<T>(r, count + shift));
        sources.push_back({reinterpret_cast<const std::byte*>(inputs.back().data() + shift), false});
    }
    std::vector<std::vector<T>> outputs(static_cast<std::size_t>(m),
                                        std::vector<T>(static_cast<std::size_t>(count + shift + 1), T{}));
    std::vector<Destination> destinations;
    for (auto& o : outputs) destinations.push_back({reinterpret_cast<std::byte*>(o.data() + shift), false});
    combine({dtype_of<T>(), op, op == ReduceOp::avg ? k : 1, streaming}, sources, destinations, count);
    for (const auto& o : outputs) {
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < count; ++i) {
            const T expected = reference<T>(op, k, i + shift);
            wrong += std::memcmp(&o[static_cast<std::size_t>(i + shift)], &expected, sizeof(T)) != 0 ? 1 : 0;
        }
        EXPECT_EQ(wrong, 0) << name_of(dtype_of<T>()) << " " << name_of(op) << ", " << k << " sources, " << count
                            << " elements";
        EXPECT_TRUE(o.back() == T{}) << "written behind the end";
        for (std::int64_t i = 0; i < shift; ++i)
            EXPECT_TRUE(o[static_cast<std::size_t>(i)] == T{}) << "written before the start";
    }
}

TEST(Combine, EqualsTheReferenceTree) {
    for (const DType dtype : kAllDTypes)
        dispatch(dtype, [](auto element) {
            for (const ReduceOp op : kReduceOps)
                for (int k = 1; k <= 9; ++k)
                    for (const std::int64_t count : {0, 1, 63, 300}) {
                        combine_and_compare<decltype(element)>(op, k, 1 + k % 3, count, 0, false);
                        combine_and_compare<decltype(element)>(op, k, 1 + k % 3, count, 3, true);
                    }
        });
}

TEST(Combine, InPlaceOverAnySource) {
    for (int k = 2; k <= 9; ++k)
        for (int target = 0; target < k; ++target)
            for (const bool streaming : {false, true}) {
                std::vector<std::vector<float>> data;
                std::vector<Source> sources;
                for (int r = 0; r < k; ++r) data.push_back(input_of<float>(r, 500));
                for (const auto& d : data) sources.push_back({reinterpret_cast<const std::byte*>(d.data()), false});
                auto& result = data[static_cast<std::size_t>(target)];
                const Destination destination{reinterpret_cast<std::byte*>(result.data()), false};
                combine({DType::f32, ReduceOp::sum, 1, streaming}, sources, {&destination, 1}, 500);
                for (std::int64_t i = 0; i < 500; ++i)
                    ASSERT_EQ(result[static_cast<std::size_t>(i)], reference<float>(ReduceOp::sum, k, i));
            }
}

// bf16 is rounded once, at the end: partial sums are f32.
TEST(Combine, PartialSumsOfBf16AreWide) {
    const std::int64_t n = 200;
    std::vector<std::vector<bf16>> inputs;
    for (int r = 0; r < 4; ++r) inputs.push_back(input_of<bf16>(r, n));
    std::vector<float> left(n), right(n);
    const auto bytes = [](auto& v) { return reinterpret_cast<std::byte*>(v.data()); };
    const auto add = [&](std::byte* a, std::byte* b, bool wide_in, std::byte* to, bool wide_out) {
        const Source sources[] = {{a, wide_in}, {b, wide_in}};
        const Destination destination{to, wide_out};
        combine({DType::bf16, ReduceOp::sum, 1, false}, sources, {&destination, 1}, n);
    };
    std::vector<bf16> result(n);
    add(bytes(inputs[0]), bytes(inputs[1]), false, bytes(left), true);
    add(bytes(inputs[2]), bytes(inputs[3]), false, bytes(right), true);
    add(bytes(left), bytes(right), true, bytes(result), false);
    for (std::int64_t i = 0; i < n; ++i)
        EXPECT_EQ(result[static_cast<std::size_t>(i)].bits, reference<bf16>(ReduceOp::sum, 4, i).bits);
}

TEST(Combine, RoundsBf16AsTheScalarDoesAndKeepsNan) {
    const float values[] = {1.0f,          1.00390625f, 1.01171875f, 3.0e38f, std::numeric_limits<float>::infinity(),
                            std::nanf(""), -0.0f,       1e-40f};
    std::vector<float> in;
    for (int i = 0; i < 96; ++i) in.push_back(values[i % 8]);
    std::vector<bf16> out(in.size());
    const Source source{reinterpret_cast<const std::byte*>(in.data()), true};
    const Destination destination{reinterpret_cast<std::byte*>(out.data()), false};
    combine({DType::bf16, ReduceOp::sum, 1, false}, {&source, 1}, {&destination, 1},
            static_cast<std::int64_t>(in.size()));
    for (std::size_t i = 0; i < in.size(); ++i) EXPECT_EQ(out[i].bits, bf16(in[i]).bits) << in[i];
}

}  // namespace
}  // namespace cleave::comm::test
