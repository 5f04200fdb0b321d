// The numbers that enter a product of tiles (tile.h). Along its depth a product takes units: one f64 or f32, or a pair
// of bf16, which the processor multiplies and adds at once into f32 (AVX512-BF16; in two steps elsewhere). Thread rule:
// values.
#pragma once

#include "kernels/simd.h"

#if CLEAVE_AVX512 && defined(__AVX512BF16__)
#define CLEAVE_AVX512_BF16 1
#else
#define CLEAVE_AVX512_BF16 0
#endif

namespace cleave::kernels::simd {

struct Bf16Pair {
    std::uint32_t bits;  // the first in the low half
};

template <class T>
using Unit = std::conditional_t<std::is_same_v<T, bf16>, Bf16Pair, T>;
// Numbers of one unit.
template <class T>
inline constexpr int kUnit = std::is_same_v<T, bf16> ? 2 : 1;

// A vector of units, and one unit in all lanes.
CLEAVE_INLINE f32x16 load_units(const float* p) {
    return load(p);
}
CLEAVE_INLINE f64x8 load_units(const double* p) {
    return load(p);
}
CLEAVE_INLINE u32x16 load_units(const Bf16Pair* p) {
    u32x16 v;
    std::memcpy(&v, p, sizeof v);
    return v;
}
CLEAVE_INLINE void store_units(Bf16Pair* p, u32x16 v) {
    std::memcpy(static_cast<void*>(p), &v, sizeof v);
}
CLEAVE_INLINE f32x16 splat_unit(float unit) {
    return splat(unit);
}
CLEAVE_INLINE f64x8 splat_unit(double unit) {
    return splat(unit);
}
CLEAVE_INLINE u32x16 splat_unit(Bf16Pair unit) {
    return unit.bits - u32x16{};
}

// sums + a b, over the numbers of each lane's unit.
CLEAVE_INLINE f32x16 multiply_add(f32x16 a, f32x16 b, f32x16 sums) {
    return fma(a, b, sums);
}
CLEAVE_INLINE f64x8 multiply_add(f64x8 a, f64x8 b, f64x8 sums) {
    return fma(a, b, sums);
}
CLEAVE_INLINE f32x16 multiply_add(u32x16 a, u32x16 b, f32x16 sums) {
#if CLEAVE_AVX512_BF16
    return (f32x16)_mm512_dpbf16_ps((__m512)sums, (__m512bh)a, (__m512bh)b);
#else
    constexpr std::uint32_t kHigh = 0xffff0000u;
    return fma((f32x16)(a & kHigh), (f32x16)(b & kHigh), fma((f32x16)(a << 16), (f32x16)(b << 16), sums));
#endif
}

// The units of `count` consecutive numbers, at most a vector of units; zero beyond. As bits, to be moved only.
template <class T>
CLEAVE_INLINE Vec<accumulator_t<T>> load_unit_bits(const T* p, std::int64_t count) {
    Vec<accumulator_t<T>> bits{};
    if (count == static_cast<std::int64_t>(sizeof bits / sizeof(T)))
        std::memcpy(&bits, p, sizeof bits);
    else
        std::memcpy(&bits, p, static_cast<std::size_t>(count) * sizeof(T));
    return bits;
}

// Factors from sums: rounded to T. kLanes numbers beside each other.
template <class T>
CLEAVE_INLINE void store_row(Unit<T>* p, Vec<accumulator_t<T>> v) {
    if constexpr (std::is_same_v<T, bf16>) {
#if CLEAVE_AVX512_BF16
        const auto bits = (u16x16)_mm512_cvtneps_pbh((__m512)v);
#else
        const u16x16 bits = narrow(v);
#endif
        std::memcpy(static_cast<void*>(p), &bits, sizeof bits);
    } else {
        store(p, v);
    }
}

// Pairs of bf16 of which v0 gives the first and v1 the second.
CLEAVE_INLINE u32x16 pairs(f32x16 v0, f32x16 v1) {
#if CLEAVE_AVX512_BF16
    const auto joined = (__m512i)_mm512_cvtne2ps_pbh((__m512)v1, (__m512)v0);  // v0 in the lower half
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return (u32x16)_mm512_maskz_permutexvar_epi16(0xffffffffu, order, joined);
#else
    return __builtin_convertvector(narrow(v0), u32x16) | (__builtin_convertvector(narrow(v1), u32x16) << 16);
#endif
}

}  // namespace cleave::kernels::simd
