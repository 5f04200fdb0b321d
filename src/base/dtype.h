// Element types. bf16 is stored as its upper 16 bits of an f32; conversion rounds to nearest, ties to even.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace cleave {

enum class DType : std::uint8_t { f64, f32, bf16, i64, i32, u8 };
inline constexpr DType kAllDTypes[] = {DType::f64, DType::f32, DType::bf16, DType::i64, DType::i32, DType::u8};

constexpr std::int64_t size_of(DType dtype) {
    switch (dtype) {
        case DType::f64:
        case DType::i64: return 8;
        case DType::f32:
        case DType::i32: return 4;
        case DType::bf16: return 2;
        case DType::u8: return 1;
    }
    return 0;
}

std::string_view name_of(DType dtype);
// Throws UserError naming the accepted words.
DType dtype_from(std::string_view name);

struct bf16 {
    std::uint16_t bits = 0;

    bf16() = default;
    explicit bf16(float value) : bits(round(value)) {}
    explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

    static std::uint16_t round(float value) {
        const auto u = std::bit_cast<std::uint32_t>(value);
        if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((u >> 16) | 0x40u);  // NaN stays NaN
        return static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
    friend bool operator==(bf16, bf16) = default;
};

template <class T>
constexpr DType dtype_of() {
    if constexpr (std::is_same_v<T, double>) return DType::f64;
    if constexpr (std::is_same_v<T, float>) return DType::f32;
    if constexpr (std::is_same_v<T, bf16>) return DType::bf16;
    if constexpr (std::is_same_v<T, std::int64_t>) return DType::i64;
    if constexpr (std::is_same_v<T, std::int32_t>) return DType::i32;
    if constexpr (std::is_same_v<T, std::uint8_t>) return DType::u8;
}

constexpr bool is_float(DType dtype) {
    return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16;
}

// The type in which sums over elements of T are taken.
template <class T>
using accumulator_t = std::conditional_t<std::is_same_v<T, bf16>, float, T>;

// Calls f(T{}) with T the C++ type of dtype.
template <class F>
decltype(auto) dispatch(DType dtype, F&& f) {
    switch (dtype) {
        case DType::f64: return f(double{});
        case DType::f32: return f(float{});
        case DType::bf16: return f(bf16{});
        case DType::i64: return f(std::int64_t{});
        case DType::i32: return f(std::int32_t{});
        case DType::u8: return f(std::uint8_t{});
    }
    broken_invariant(__FILE__, __LINE__, "dtype", "not a dtype");
}

// The same for the floating types alone.
template <class F>
decltype(auto) dispatch_float(DType dtype, F&& f) {
    switch (dtype) {
        case DType::f64: return f(double{});
        case DType::f32: return f(float{});
        case DType::bf16: return f(bf16{});
        default: broken_invariant(__FILE__, __LINE__, "is_float(dtype)", std::string(name_of(dtype)));
    }
}

}  // namespace cleave
