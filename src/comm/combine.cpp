#include "comm/combine.h"

#include <bit>
#include <cstring>
#include <type_traits>

#include "base/error.h"

#if defined(__AVX512F__) || defined(__SSE2__)
#include <immintrin.h>
#endif

namespace cleave::comm {
namespace {

constexpr std::int64_t kBlock = 1024;  // elements: a block of every source and the result stay in the first cache

template <class T, ReduceOp op, class A>
inline A apply(A a, A b) {
    if constexpr (op == ReduceOp::max) return a > b || a != a ? a : b;
    if constexpr (op == ReduceOp::min) return a < b || a != a ? a : b;
    if constexpr (std::is_integral_v<A>) {  // wraps: signed overflow is undefined, unsigned is not
        using U = std::make_unsigned_t<A>;
        return static_cast<A>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
        return a + b;
    }
}

template <class T>
struct Narrow {
    const T* data;
    accumulator_t<T> operator[](std::int64_t i) const { return static_cast<accumulator_t<T>>(data[i]); }
};
template <class A>
struct Wide {
    const A* data;
    A operator[](std::int64_t i) const { return data[i]; }
};

template <class T, class F>
void with_reader(const Source& s, std::int64_t first, F&& f) {
    using A = accumulator_t<T>;
    if constexpr (!std::is_same_v<T, A>) {
        if (!s.wide) return f(Narrow<T>{reinterpret_cast<const T*>(s.data) + first});
    }
    f(Wide<A>{reinterpret_cast<const A*>(s.data) + first});
}

template <class T, ReduceOp op>
class Tree {
    using A = accumulator_t<T>;

  public:
    // result[0..count) = sources' elements [first, first + count), combined.
    static void run(const Source* s, std::size_t k, std::int64_t first, std::int64_t count, A* __restrict result) {
        if (k == 1) return load(s[0], first, count, result);
        if (k == 2) return pair(s[0], s[1], first, count, result);
        if (k == 4 && std::is_same_v<T, A>) return four(s, first, count, result);
        const std::size_t left = std::bit_floor(k - 1);
        alignas(64) A right[kBlock];
        run(s, left, first, count, result);
        run(s + left, k - left, first, count, right);
        for (std::int64_t i = 0; i < count; ++i) result[i] = apply<T, op, A>(result[i], right[i]);
    }

  private:
    static void load(const Source& s, std::int64_t first, std::int64_t count, A* __restrict result) {
        with_reader<T>(s, first, [&](auto a) {
            for (std::int64_t i = 0; i < count; ++i) result[i] = a[i];
        });
    }
    static void pair(const Source& s, const Source& t, std::int64_t first, std::int64_t count, A* __restrict result) {
        with_reader<T>(s, first, [&](auto a) {
            with_reader<T>(t, first, [&](auto b) {
                for (std::int64_t i = 0; i < count; ++i) result[i] = apply<T, op, A>(a[i], b[i]);
            });
        });
    }
    static void four(const Source* s, std::int64_t first, std::int64_t count, A* __restrict result) {
        const A* a = reinterpret_cast<const A*>(s[0].data) + first;
        const A* b = reinterpret_cast<const A*>(s[1].data) + first;
        const A* c = reinterpret_cast<const A*>(s[2].data) + first;
        const A* d = reinterpret_cast<const A*>(s[3].data) + first;
        for (std::int64_t i = 0; i < count; ++i)
            result[i] = apply<T, op, A>(apply<T, op, A>(a[i], b[i]), apply<T, op, A>(c[i], d[i]));
    }
};

template <class A>
void divide(A* values, std::int64_t count, int by) {
    const A divisor = static_cast<A>(by);
    for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<A>(values[i] / divisor);
}

#if defined(__AVX512F__)
void stream(std::byte* to, const std::byte* from, std::int64_t bytes) {
    const auto misaligned = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % 64);
    const std::int64_t head = std::min<std::int64_t>(bytes, misaligned == 0 ? 0 : 64 - misaligned);
    std::memcpy(to, from, static_cast<std::size_t>(head));
    std::int64_t i = head;
    for (; i + 64 <= bytes; i += 64)
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), _mm512_loadu_si512(from + i));
    std::memcpy(to + i, from + i, static_cast<std::size_t>(bytes - i));
}
void stream_fence() {
    _mm_sfence();
}
#else
void stream(std::byte* to, const std::byte* from, std::int64_t bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
}
void stream_fence() {}
#endif

void put(std::byte* to, const std::byte* from, std::int64_t bytes, bool streaming) {
    if (to == from) return;
    if (streaming)
        stream(to, from, bytes);
    else
        std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

template <class T>
void store(const accumulator_t<T>* values, const Destination& d, std::int64_t first, std::int64_t count,
           bool streaming) {
    using A = accumulator_t<T>;
    if constexpr (!std::is_same_v<T, A>) {
        if (!d.wide) {
            alignas(64) T rounded[kBlock];
            for (std::int64_t i = 0; i < count; ++i) rounded[i] = T(values[i]);
            const auto size = static_cast<std::int64_t>(sizeof(T));
            return put(d.data + first * size, reinterpret_cast<const std::byte*>(rounded), count * size, streaming);
        }
    }
    const auto size = static_cast<std::int64_t>(sizeof(A));
    put(d.data + first * size, reinterpret_cast<const std::byte*>(values), count * size, streaming);
}

template <class T, ReduceOp op>
void combine_typed(const Combination& how, std::span<const Source> sources, std::span<const Destination> destinations,
                   std::int64_t count) {
    alignas(64) accumulator_t<T> result[kBlock];
    for (std::int64_t first = 0; first < count; first += kBlock) {
        const std::int64_t n = std::min(kBlock, count - first);
        Tree<T, op>::run(sources.data(), sources.size(), first, n, result);
        if (how.divide_by > 1) divide(result, n, how.divide_by);
        for (const Destination& d : destinations) store<T>(result, d, first, n, how.streaming);
    }
}

// One source, no arithmetic: each block is read once and stored to all destinations.
void copy_to_all(const Source& source, std::span<const Destination> destinations, std::int64_t bytes, bool streaming) {
    if (destinations.size() == 1) return put(destinations[0].data, source.data, bytes, streaming);
    constexpr std::int64_t kCopyBlock = 16 * 1024;
    for (std::int64_t first = 0; first < bytes; first += kCopyBlock)
        for (const Destination& d : destinations)
            put(d.data + first, source.data + first, std::min(kCopyBlock, bytes - first), streaming);
}

bool is_copy(const Combination& how, std::span<const Source> sources, std::span<const Destination> destinations) {
    if (sources.size() != 1 || how.divide_by > 1) return false;
    for (const Destination& d : destinations)
        if (how.dtype == DType::bf16 && d.wide != sources[0].wide) return false;
    return true;
}

}  // namespace

void combine(const Combination& how, std::span<const Source> sources, std::span<const Destination> destinations,
             std::int64_t count) {
    if (count == 0) return;
    if (is_copy(how, sources, destinations)) {
        const bool wide = how.dtype == DType::bf16 && sources[0].wide;
        copy_to_all(sources[0], destinations, count * (wide ? size_of(DType::f32) : size_of(how.dtype)), how.streaming);
    } else {
        dispatch(how.dtype, [&](auto element) {
            using T = decltype(element);
            switch (how.op) {
                case ReduceOp::sum:
                case ReduceOp::avg:
                    return combine_typed<T, ReduceOp::sum>(how, sources, destinations, count);
                case ReduceOp::max:
                    return combine_typed<T, ReduceOp::max>(how, sources, destinations, count);
                case ReduceOp::min:
                    return combine_typed<T, ReduceOp::min>(how, sources, destinations, count);
            }
        });
    }
    if (how.streaming) stream_fence();
}

void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes, bool streaming) {
    put(to, from, bytes, streaming);
    if (streaming) stream_fence();
}

}  // namespace cleave::comm
