// exp and the logistic function on vectors: our own for f32 (tests state the accuracy: 2 units in the last place), the
// C library's for f64, lane by lane.
// Thread rule: pure functions.
#pragma once

#include "kernels/simd.h"

namespace cleave::kernels::simd {

// x 2^floor(n) for |n| <= 151, rounded once, down to the smallest denormal and up to infinity.
CLEAVE_INLINE f32x16 scale_by_power(f32x16 x, f32x16 n) {
#if CLEAVE_AVX512
    return (f32x16)_mm512_maskz_scalef_ps(0xffff, (__m512)x, (__m512)n);
#else
    const auto power = [](i32x16 k) { return (f32x16)((k + 127) << 23); };
    const i32x16 toward_zero = __builtin_convertvector(n, i32x16);
    const i32x16 whole = toward_zero + (__builtin_convertvector(toward_zero, f32x16) > n);  // a true lane is -1
    const i32x16 half = whole >> 1;  // in two halves: 2^n alone may have no f32
    return x * power(half) * power(whole - half);
#endif
}

// table[index mod 16], lane by lane.
CLEAVE_INLINE f32x16 look_up(f32x16 table, i32x16 index) {
#if CLEAVE_AVX512
    return (f32x16)_mm512_maskz_permutexvar_ps(0xffff, (__m512i)index, (__m512)table);
#else
    f32x16 found;
    for (int i = 0; i < 16; ++i) found[i] = table[index[i] & 15];
    return found;
#endif
}

// exp(x) = 2^n exp(r), n = x / ln 2 rounded to 1/16, |r| <= ln 2 / 32. 2^n is 2^floor(n) times one of 16 numbers;
// exp(r) is its Taylor polynomial of degree 3 (error under 2^-26).
CLEAVE_INLINE f32x16 exp(f32x16 x) {
    constexpr float kLow = -104.0F;  // exp(-104) rounds to 0
    constexpr float kHigh = 89.0F;   // exp(89) is infinite
    x = min(splat(kHigh), max(splat(kLow), x));
    // 1.5 * 2^19: adding it rounds to 1/16; the sixteenths are then the low bits.
    constexpr float kShift = 786432.0F;
    const f32x16 shifted = fma(x, splat(1.44269504088896F), splat(kShift));
    const f32x16 n = shifted - kShift;
    // 2^(i/16)
    const f32x16 roots{1.0F,        1.04427373F, 1.09050775F, 1.13878858F, 1.18920708F, 1.24185777F,
                       1.29683959F, 1.35425556F, 1.41421354F, 1.47682619F, 1.54221082F, 1.61049032F,
                       1.68179286F, 1.75625217F, 1.8340081F,  1.91520655F};
    const f32x16 root = look_up(roots, (i32x16)shifted);
    // ln 2 in two parts, the first so short that its products with n are exact.
    f32x16 r = fma(n, splat(-0.693115234375F), x);
    r = fma(n, splat(-3.1946184945309e-5F), r);
    const f32x16 rest = fma(fma(r, splat(1.0F / 6), splat(0.5F)), r * r, r);  // exp(r) - 1
    return scale_by_power(fma(root, rest, root), n);
}

CLEAVE_INLINE f64x8 exp(f64x8 x) {
    for (int i = 0; i < 8; ++i) x[i] = std::exp(x[i]);
    return x;
}

// The sine and cosine of |x| < 2^20: x = n pi/2 + r, |r| <= pi/4, and Taylor polynomials of r (error under 2^-53).
CLEAVE_INLINE void sine_cosine(f64x8 x, f64x8& sine, f64x8& cosine) {
    constexpr double kShift = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer
    const f64x8 shifted = fma(x, splat(0.63661977236758134308), splat(kShift));
    const f64x8 n = shifted - kShift;
    const i64x8 quadrant = (i64x8)shifted;
    // pi / 2 in three parts; the products with the first two are exact for the n that occur.
    f64x8 r = fma(n, splat(-0x1.921fb544p+0), x);
    r = fma(n, splat(-0x1.0b4611a6p-34), r);
    r = fma(n, splat(-0x1.3198a2e037073p-69), r);
    const f64x8 square = r * r;
    constexpr double kSine[] = {-1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880,
                                -1.0 / 5040,          1.0 / 120,        -1.0 / 6};
    constexpr double kCosine[] = {1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800,
                                  1.0 / 40320,          -1.0 / 720,         1.0 / 24,        -0.5};
    f64x8 s = splat(kSine[0]);
    for (int i = 1; i < 7; ++i) s = fma(s, square, splat(kSine[i]));
    s = fma(s * square, r, r);
    f64x8 c = splat(kCosine[0]);
    for (int i = 1; i < 8; ++i) c = fma(c, square, splat(kCosine[i]));
    c = fma(c, square, splat(1.0));
    const auto odd = (quadrant & 1) != 0;
    sine = odd ? c : s;
    cosine = odd ? s : c;
    sine = (quadrant & 2) != 0 ? -sine : sine;
    cosine = ((quadrant + 1) & 2) != 0 ? -cosine : cosine;
}

// 1 / (1 + exp(-x))
template <class V>
CLEAVE_INLINE V logistic(V x) {
    return 1 / (1 + exp(-x));
}

}  // namespace cleave::kernels::simd
