// Vectors of 64 bytes for the kernels: f32 x 16 and f64 x 8, in the compilers' vector extension, which any processor
// can run; AVX-512 instructions where the extension has no word for them (masked access, fused multiply-add, square
// root). The last, incomplete vector of a row goes through the same arithmetic as the others, so that the bits of an
// element do not depend on where a row was cut. Thread rule: values.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/dtype.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define CLEAVE_AVX512 1
#include <immintrin.h>
#else
#define CLEAVE_AVX512 0
#endif
#if CLEAVE_AVX512 && defined(__AVX512DQ__) && defined(__AVX512BF16__)
#define CLEAVE_AVX512_BF16 1
#else
#define CLEAVE_AVX512_BF16 0
#endif

#if defined(__GNUC__) && !defined(__clang__)
#define CLEAVE_UNROLL _Pragma("GCC unroll 16")  // clang unrolls such loops unasked
#else
#define CLEAVE_UNROLL
#endif

#define CLEAVE_INLINE inline __attribute__((always_inline))

// Loads the vector once, here: the compiler would otherwise load it again as a memory operand of each use, and loads
// are what a product of tiles has none to spare of.
#if CLEAVE_AVX512
#define CLEAVE_IN_REGISTER(vector) asm("" : "+v"(vector))
#else
#define CLEAVE_IN_REGISTER(vector)
#endif

namespace cleave::kernels::simd {

using f32x8 = float __attribute__((vector_size(32)));
using f32x16 = float __attribute__((vector_size(64)));
using f64x8 = double __attribute__((vector_size(64)));
using i32x16 = std::int32_t __attribute__((vector_size(64)));
using i64x8 = std::int64_t __attribute__((vector_size(64)));
using u32x16 = std::uint32_t __attribute__((vector_size(64)));
using u16x16 = std::uint16_t __attribute__((vector_size(32)));

template <class A>
using Vec = std::conditional_t<std::is_same_v<A, double>, f64x8, f32x16>;
template <class V>
using Lane = std::conditional_t<std::is_same_v<std::remove_cv_t<V>, f64x8>, double, float>;
template <class A>
inline constexpr int kLanes = static_cast<int>(64 / sizeof(A));

// The count of lanes in use: known to be all, or an int below kLanes.
template <class A>
using Full = std::integral_constant<int, kLanes<A>>;

template <class A>
CLEAVE_INLINE Vec<A> splat(A a) {
    return a - Vec<A>{};  // minus keeps the sign of zero
}

// a * b + c, rounded once where the processor can.
CLEAVE_INLINE f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
#if CLEAVE_AVX512
    return (f32x16)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#else
    return a * b + c;
#endif
}
CLEAVE_INLINE f64x8 fma(f64x8 a, f64x8 b, f64x8 c) {
#if CLEAVE_AVX512
    return (f64x8)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#else
    return a * b + c;
#endif
}

CLEAVE_INLINE f32x16 sqrt(f32x16 a) {
#if CLEAVE_AVX512
    return (f32x16)_mm512_maskz_sqrt_ps(0xffff, (__m512)a);
#else
    for (int i = 0; i < 16; ++i) a[i] = std::sqrt(a[i]);
    return a;
#endif
}
CLEAVE_INLINE f64x8 sqrt(f64x8 a) {
#if CLEAVE_AVX512
    return (f64x8)_mm512_maskz_sqrt_pd(0xff, (__m512d)a);
#else
    for (int i = 0; i < 8; ++i) a[i] = std::sqrt(a[i]);
    return a;
#endif
}

// Where either is not a number, b: the processor's own rule.
template <class V>
CLEAVE_INLINE V max(V a, V b) {
    return a > b ? a : b;
}
template <class V>
CLEAVE_INLINE V min(V a, V b) {
    return a < b ? a : b;
}
// x within [-bound, bound]; what is not a number stays so.
template <class V>
CLEAVE_INLINE V clamp(V x, Lane<V> bound) {
    return min(splat(bound), max(splat(-bound), x));
}

// bf16 is the upper half of an f32; to bf16 as bf16::round does it.
CLEAVE_INLINE f32x16 widen(u16x16 bits) {
#if CLEAVE_AVX512  // GCC 12 converts 16-bit lanes one half at a time
    return (f32x16)((u32x16)_mm512_maskz_cvtepu16_epi32(0xffff, (__m256i)bits) << 16);
#else
    return (f32x16)(__builtin_convertvector(bits, u32x16) << 16);
#endif
}
CLEAVE_INLINE u16x16 narrow(f32x16 value) {
#if CLEAVE_AVX512_BF16
    // The processor's instruction does it, but takes what is below the smallest normal number for 0.
    constexpr int kDenormal = 0x20;
    if (_mm512_fpclass_ps_mask((__m512)value, kDenormal) == 0) [[likely]]
        return (u16x16)_mm512_cvtneps_pbh((__m512)value);
#endif
    const u32x16 u = (u32x16)value;
    const u32x16 rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const u32x16 quiet = (u >> 16) | 0x40u;
    const u32x16 bits = value != value ? quiet : rounded;  // NOLINT(misc-redundant-expression): true of NaN alone
#if CLEAVE_AVX512
    return (u16x16)_mm512_maskz_cvtepi32_epi16(0xffff, (__m512i)bits);
#else
    return __builtin_convertvector(bits, u16x16);
#endif
}

// load(p, count): `count` elements of T as the accumulator's vector; the lanes beyond are zero.
template <class T>
CLEAVE_INLINE Vec<accumulator_t<T>> load(const T* p, Full<accumulator_t<T>> = {}) {
    if constexpr (std::is_same_v<T, bf16>) {
        u16x16 bits;
        std::memcpy(&bits, p, sizeof bits);
        return widen(bits);
    } else {
        Vec<T> v;
        std::memcpy(&v, p, sizeof v);
        return v;
    }
}
template <class T>
CLEAVE_INLINE Vec<accumulator_t<T>> load(const T* p, int count) {
#if CLEAVE_AVX512
    const auto mask = (1u << count) - 1u;
    if constexpr (std::is_same_v<T, bf16>)
        return widen((u16x16)_mm256_maskz_loadu_epi16(static_cast<__mmask16>(mask), p));
    else if constexpr (std::is_same_v<T, float>)
        return (f32x16)_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), p);
    else
        return (f64x8)_mm512_maskz_loadu_pd(static_cast<__mmask8>(mask), p);
#else
    T buffer[kLanes<accumulator_t<T>>]{};
    std::memcpy(buffer, p, static_cast<std::size_t>(count) * sizeof(T));
    return load(buffer);
#endif
}

template <class T>
CLEAVE_INLINE void store(T* p, Vec<accumulator_t<T>> v, Full<accumulator_t<T>> = {}) {
    if constexpr (std::is_same_v<T, bf16>) {
        const u16x16 bits = narrow(v);
        std::memcpy(static_cast<void*>(p), &bits, sizeof bits);
    } else {
        std::memcpy(p, &v, sizeof v);
    }
}
template <class T>
CLEAVE_INLINE void store(T* p, Vec<accumulator_t<T>> v, int count) {
#if CLEAVE_AVX512
    const auto mask = (1u << count) - 1u;
    if constexpr (std::is_same_v<T, bf16>)
        _mm256_mask_storeu_epi16(p, static_cast<__mmask16>(mask), (__m256i)narrow(v));
    else if constexpr (std::is_same_v<T, float>)
        _mm512_mask_storeu_ps(p, static_cast<__mmask16>(mask), (__m512)v);
    else
        _mm512_mask_storeu_pd(p, static_cast<__mmask8>(mask), (__m512d)v);
#else
    T buffer[kLanes<accumulator_t<T>>];
    store(buffer, v);
    std::memcpy(static_cast<void*>(p), buffer, static_cast<std::size_t>(count) * sizeof(T));
#endif
}

// A whole vector past the caches, to an address that is a multiple of its size: for results so large that nobody will
// find them in a cache. end_streams() before another thread may read them.
template <class T>
CLEAVE_INLINE void stream(T* p, Vec<accumulator_t<T>> v) {
#if CLEAVE_AVX512
    if constexpr (std::is_same_v<T, bf16>)
        _mm256_stream_si256(reinterpret_cast<__m256i*>(p), (__m256i)narrow(v));
    else
        _mm512_stream_si512(reinterpret_cast<__m512i*>(p), (__m512i)v);
#else
    store(p, v);
#endif
}
CLEAVE_INLINE void end_streams() {
#if CLEAVE_AVX512
    _mm_sfence();
#endif
}

// Lanes are combined in halves: one fixed order.
template <class F>
CLEAVE_INLINE float fold(f32x16 v, F&& f) {
    v = f(v, __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
    v = f(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
    v = f(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
    v = f(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
    return v[0];
}
template <class F>
CLEAVE_INLINE double fold(f64x8 v, F&& f) {
    v = f(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));
    v = f(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5));
    v = f(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6));
    return v[0];
}
template <class V>
CLEAVE_INLINE auto sum(V v) {
    return fold(v, [](V a, V b) { return a + b; });
}
template <class V>
CLEAVE_INLINE auto largest(V v) {
    return fold(v, [](V a, V b) { return max(a, b); });
}

// The first `count` lanes (any number) of v, `other` beyond.
CLEAVE_INLINE f32x16 select_first(f32x16 v, f32x16 other, std::int64_t count) {
    const i32x16 lane{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return lane < static_cast<std::int32_t>(count < 0 ? 0 : count > 16 ? 16 : count) ? v : other;
}
CLEAVE_INLINE f64x8 select_first(f64x8 v, f64x8 other, std::int64_t count) {
    const i64x8 lane{0, 1, 2, 3, 4, 5, 6, 7};
    return lane < count ? v : other;
}

// Lanes [begin, end) of v, `other` elsewhere.
CLEAVE_INLINE f32x16 select_range(f32x16 v, f32x16 other, std::int64_t begin, std::int64_t end) {
    return select_first(select_first(other, v, begin), other, end);
}
CLEAVE_INLINE f64x8 select_range(f64x8 v, f64x8 other, std::int64_t begin, std::int64_t end) {
    return select_first(select_first(other, v, begin), other, end);
}

// What for_vectors and sum_over give as count: all lanes, or some.
template <class A>
CLEAVE_INLINE Vec<A> select_first(Vec<A> v, Vec<A>, Full<A>) {
    return v;
}

// Rows and columns of a square of lanes change places.
template <int Step, class V, int... Lane>
CLEAVE_INLINE void exchange(V& a, V& b, std::integer_sequence<int, Lane...>) {
    constexpr int kCount = sizeof...(Lane);
    const V low = __builtin_shufflevector(a, b, ((Lane & Step) ? kCount + Lane - Step : Lane)...);
    b = __builtin_shufflevector(a, b, ((Lane & Step) ? kCount + Lane : Lane + Step)...);
    a = low;
}
template <class A, int Step = 1>
CLEAVE_INLINE void transpose(Vec<A> (&rows)[kLanes<A>]) {
    CLEAVE_UNROLL
    for (int i = 0; i < kLanes<A>; ++i)
        if ((i & Step) == 0) exchange<Step>(rows[i], rows[i + Step], std::make_integer_sequence<int, kLanes<A>>{});
    if constexpr (2 * Step < kLanes<A>) transpose<A, 2 * Step>(rows);
}

// Calls f(index, count) for each vector of [0, n).
template <class A, class F>
CLEAVE_INLINE void for_vectors(std::int64_t begin, std::int64_t end, F&& f) {
    constexpr std::int64_t lanes = kLanes<A>;
    std::int64_t i = begin;
    for (; i + lanes <= end; i += lanes) f(i, Full<A>{});
    if (i < end) f(i, static_cast<int>(end - i));
}

// Asks for the cache line of an address ahead of its use; it may lie beyond what there is.
CLEAVE_INLINE void fetch(const void* p) {
    __builtin_prefetch(p, 0, 2);
}

// Sums over [0, n), in an order that depends on n alone: f(index, count, sums) adds to each of `Sums` vectors, and zero
// in the lanes beyond count.
template <class A, std::size_t Sums, class F>
CLEAVE_INLINE std::array<A, Sums> sums_over(std::int64_t n, F&& f) {
    constexpr std::int64_t lanes = kLanes<A>;
    std::array<Vec<A>, Sums> s0{}, s1{}, s2{}, s3{};
    std::int64_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
        f(i, Full<A>{}, s0);
        f(i + lanes, Full<A>{}, s1);
        f(i + 2 * lanes, Full<A>{}, s2);
        f(i + 3 * lanes, Full<A>{}, s3);
    }
    for (; i + lanes <= n; i += lanes) f(i, Full<A>{}, s0);
    if (i < n) f(i, static_cast<int>(n - i), s1);
    std::array<A, Sums> total;
    for (std::size_t k = 0; k < Sums; ++k) total[k] = sum((s0[k] + s1[k]) + (s2[k] + s3[k]));
    return total;
}

// The sum of f(index, count), in the same order.
template <class A, class F>
CLEAVE_INLINE A sum_over(std::int64_t n, F&& f) {
    return sums_over<A, 1>(n, [&](std::int64_t i, auto count, auto& sums) { sums[0] += f(i, count); })[0];
}

}  // namespace cleave::kernels::simd
