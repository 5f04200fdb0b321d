// A cache line of elements as one value, by the vector extensions that GCC and clang share: element-wise operators, no
// intrinsics but the streaming store.
// Thread rule: values.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/dtype.h"
#include "comm/types.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace cleave::comm {

inline constexpr std::int64_t kLineBytes = 64;

// Integer sums wrap: signed overflow is undefined, so sums are taken in the unsigned type of the same size.
template <class A>
struct Arithmetic {
    using type = A;
};
template <class A>
requires std::is_integral_v<A>
struct Arithmetic<A> {
    using type = std::make_unsigned_t<A>;
};
template <class A>
using arithmetic_t = typename Arithmetic<A>::type;

template <class A>
using Lanes __attribute__((vector_size(kLineBytes))) = A;
template <class A>
inline constexpr std::int64_t kLanes = kLineBytes / static_cast<std::int64_t>(sizeof(A));

// kLanes<A> elements of T at `from`, as accumulators.
template <class T, class A = accumulator_t<T>>
inline Lanes<A> load(const T* from) {
    if constexpr (std::is_same_v<T, bf16>) {
        using Half __attribute__((vector_size(kLineBytes / 2))) = std::uint16_t;
        Half half;
        std::memcpy(&half, from, sizeof(half));
        const auto bits = __builtin_convertvector(half, Lanes<std::uint32_t>) << 16;
        return reinterpret_cast<Lanes<float>>(bits);
    } else {
        Lanes<A> lanes;
        std::memcpy(&lanes, from, sizeof(lanes));
        return lanes;
    }
}

inline void store_line(std::byte* to, const void* line, bool streaming) {
#if defined(__AVX512F__)
    if (streaming) return _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(line));
#endif
    (void)streaming;
    std::memcpy(to, line, kLineBytes);
}

// Streaming stores are not ordered with later ones by themselves.
inline void streaming_fence() {
#if defined(__AVX512F__)
    _mm_sfence();
#endif
}

template <class A>
void store(A* to, const Lanes<A>& lanes, bool streaming) {
    store_line(reinterpret_cast<std::byte*>(to), &lanes, streaming);
}

// As bf16::round, on all lanes.
inline void store_rounded(bf16* to, const Lanes<float>& lanes) {
    using U = Lanes<std::uint32_t>;
    const U u = reinterpret_cast<U>(lanes);
    const U is_nan = reinterpret_cast<U>((u & 0x7fffffffu) > 0x7f800000u);
    const U rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const U quiet = (u >> 16) | 0x40u;
    using Half __attribute__((vector_size(kLineBytes / 2))) = std::uint16_t;
    const Half half = __builtin_convertvector((is_nan & quiet) | (~is_nan & rounded), Half);
    std::memcpy(static_cast<void*>(to), &half, sizeof(half));
}

// One element or one line of them. max and min hand a NaN on.
template <ReduceOp op, class V>
inline V apply(V a, V b) {
    if constexpr (op == ReduceOp::max)
        return ((a > b) | (a != a)) ? a : b;  // NOLINT(misc-redundant-expression): is NaN
    if constexpr (op == ReduceOp::min)
        return ((a < b) | (a != a)) ? a : b;  // NOLINT(misc-redundant-expression): is NaN
    return a + b;
}

template <ReduceOp op, class A>
inline Lanes<A> apply_lanes(const Lanes<A>& a, const Lanes<A>& b) {
    if constexpr (op == ReduceOp::sum) {
        using U = Lanes<arithmetic_t<A>>;
        return reinterpret_cast<Lanes<A>>(reinterpret_cast<U>(a) + reinterpret_cast<U>(b));
    } else {
        return apply<op>(a, b);
    }
}

template <ReduceOp op, class A>
inline A apply_one(A a, A b) {
    if constexpr (op == ReduceOp::sum) {
        using U = arithmetic_t<A>;
        return static_cast<A>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
        return apply<op>(a, b);
    }
}

}  // namespace cleave::comm
