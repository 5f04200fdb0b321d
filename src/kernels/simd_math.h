// exp and the logistic function on vectors: our own for f32 (tests state the accuracy: 2 units in the last place), the
// C library's for f64, lane by lane.
// Thread rule: pure functions.
#pragma once

#include "kernels/simd.h"

namespace cleave::kernels::simd {

// 2^n for n in [-126, 127].
CLEAVE_INLINE f32x16 power_of_two(i32x16 n) {
    return (f32x16)((n + 127) << 23);
}

// exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln 2 / 2, exp(r) by its Taylor polynomial of degree 7 (error under
// 2^-27). 2^n is multiplied in two halves so that results down to the smallest denormal, and infinity, come out right.
CLEAVE_INLINE f32x16 exp(f32x16 x) {
    constexpr float kLow = -104.0F;  // exp(-104) rounds to 0
    constexpr float kHigh = 89.0F;   // exp(89) is infinite
    x = x < kLow ? splat(kLow) : x;
    x = x > kHigh ? splat(kHigh) : x;
    // Adding 1.5 * 2^23 rounds to an integer, which is then found in the low bits.
    constexpr float kShift = 12582912.0F;
    const f32x16 shifted = fma(x, splat(1.44269504088896F), splat(kShift));
    const f32x16 n = shifted - kShift;
    const i32x16 exponent = (i32x16)shifted - (i32x16)splat(kShift);
    // ln 2 in two parts, the first with trailing zeros: n * 0.693145751953125 is exact.
    f32x16 r = fma(n, splat(-0.693145751953125F), x);
    r = fma(n, splat(-1.42860682030941723212e-6F), r);
    f32x16 p = splat(1.0F / 5040);
    p = fma(p, r, splat(1.0F / 720));
    p = fma(p, r, splat(1.0F / 120));
    p = fma(p, r, splat(1.0F / 24));
    p = fma(p, r, splat(1.0F / 6));
    p = fma(p, r, splat(0.5F));
    p = fma(p, r * r, r) + 1.0F;
    const i32x16 half = exponent >> 1;
    return p * power_of_two(half) * power_of_two(exponent - half);
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
