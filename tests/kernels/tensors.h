// Test tensors: `Array` holds values in f64, the references' world; `Tensor` holds them in a dtype, as kernels see
// them. `launch` runs a kernel on tensors with exactly the scratch that it asked for.
#pragma once

#include <gtest/gtest.h>
#include <omp.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/kernel.h"

namespace cleave::kernels::test {

struct Array {
    Shape shape;
    std::vector<double> values;

    Array() = default;
    explicit Array(const Shape& s, double value = 0)
        : shape(s), values(static_cast<std::size_t>(s.elements()), value) {}
    std::int64_t size() const { return static_cast<std::int64_t>(values.size()); }
    double& operator[](std::int64_t i) { return values[static_cast<std::size_t>(i)]; }
    double operator[](std::int64_t i) const { return values[static_cast<std::size_t>(i)]; }
};

inline Array normal(const Shape& shape, const std::string& name, double mean = 0, double deviation = 1) {
    Array array(shape);
    const RandomStream random(7, name);
    for (std::int64_t i = 0; i < array.size(); ++i)
        array[i] = mean + deviation * random.normal(static_cast<std::uint64_t>(i));
    return array;
}

inline Array integers(const Shape& shape, const std::string& name, std::int64_t below) {
    Array array(shape);
    const RandomStream random(7, name);
    for (std::int64_t i = 0; i < array.size(); ++i)
        array[i] = static_cast<double>(random.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(below)));
    return array;
}

template <class T>
T from_double(double value) {
    if constexpr (std::is_same_v<T, bf16>)
        return bf16(static_cast<float>(value));
    else
        return static_cast<T>(value);
}

template <class T>
double to_double(T value) {
    if constexpr (std::is_same_v<T, bf16>)
        return static_cast<double>(static_cast<float>(value));
    else
        return static_cast<double>(value);
}

// Storage is as large as the elements need and no larger, so that the address sanitizer sees the ends.
class Tensor {
  public:
    Tensor(const Array& array, DType dtype) : view_(whole_view(nullptr, dtype, array.shape)) {
        allocate(array.size() * size_of(dtype));
        set(array);
    }
    // The same values, each row of the last dim `gap` elements apart from the next.
    Tensor(const Array& array, DType dtype, std::int64_t gap)
        : view_(whole_view(nullptr, dtype, array.shape)), dense_(gap == 0) {
        const Shape& s = array.shape;
        std::int64_t stride = s.back() + gap;
        for (int d = s.rank() - 2; d >= 0; --d) {
            view_.strides[d] = stride;
            stride *= s[d];
        }
        allocate(std::max<std::int64_t>(0, stride) * size_of(dtype));
        set(array);
    }

    View& view() { return view_; }
    const View& view() const { return view_; }
    const std::byte* bytes() const { return storage_.get(); }
    std::int64_t byte_count() const { return byte_count_; }

    void set(const Array& array) {
        dispatch(view_.dtype, [&]<class T>(T) {
            for (std::int64_t i = 0; i < array.size(); ++i) view_.as<T>()[offset(i)] = from_double<T>(array[i]);
        });
    }
    Array values() const {
        Array array(view_.shape);
        dispatch(view_.dtype, [&]<class T>(T) {
            for (std::int64_t i = 0; i < array.size(); ++i) array[i] = to_double(view_.as<T>()[offset(i)]);
        });
        return array;
    }

  private:
    void allocate(std::int64_t bytes) {
        byte_count_ = bytes;
        storage_ = std::make_unique<std::byte[]>(static_cast<std::size_t>(bytes));
        view_.data = storage_.get();
    }
    std::int64_t offset(std::int64_t i) const {
        if (dense_) return i;  // most are, and the divisions below would take most of the tests' time
        std::int64_t at = 0;
        for (int d = view_.shape.rank() - 1; d >= 0; --d) {
            at += i % view_.shape[d] * view_.strides[d];
            i /= view_.shape[d];
        }
        return at;
    }
    View view_;
    bool dense_ = true;
    std::int64_t byte_count_ = 0;
    std::unique_ptr<std::byte[]> storage_;
};

// A team of one while it lives: the smallest tensors are not worth a second thread.
class OneThread {
  public:
    OneThread() { omp_set_num_threads(1); }
    ~OneThread() { omp_set_num_threads(before_); }
    OneThread(const OneThread&) = delete;

  private:
    int before_ = omp_get_max_threads();
};

inline void launch(const Kernel& kernel, std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) {
    std::vector<View> in, out;
    for (Tensor& t : inputs) in.push_back(t.view());
    for (Tensor& t : outputs) out.push_back(t.view());
    const std::int64_t bytes = kernel.workspace_bytes(in, out);
    ASSERT_EQ(bytes % 64, 0) << kernel.name();
    void* workspace = bytes > 0 ? std::aligned_alloc(64, static_cast<std::size_t>(bytes)) : nullptr;
    if (bytes > 0) std::memset(workspace, 0xff, static_cast<std::size_t>(bytes));  // NaN: nothing may be taken as zero
    kernel.run(in, out, workspace);
    std::free(workspace);
}

}  // namespace cleave::kernels::test
