#include "comm/combine.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "comm/lanes.h"

namespace cleave::comm {
namespace {

// Results are made in groups of four lines: each source is read and each destination written 256 bytes at a time. Line
// by line the many streams cost a third more (2 ranks on 2 cores, 1 to 4 MiB).
constexpr int kGroup = 4;

// Reads elements of one source as accumulators, whichever type they are stored in.
template <class T>
struct Reader {
    using A = accumulator_t<T>;
    static Lanes<A> line(const Source& s, std::int64_t i) {
        if constexpr (!std::is_same_v<T, A>)
            if (!s.wide) return load<T>(reinterpret_cast<const T*>(s.data) + i);
        return load<A>(reinterpret_cast<const A*>(s.data) + i);
    }
    static A one(const Source& s, std::int64_t i) {
        if constexpr (!std::is_same_v<T, A>)
            if (!s.wide) return static_cast<A>(reinterpret_cast<const T*>(s.data)[i]);
        return reinterpret_cast<const A*>(s.data)[i];
    }
};

template <class T>
struct Writer {
    using A = accumulator_t<T>;
    static void line(const Destination& d, std::int64_t i, const Lanes<A>& value, bool streaming) {
        if constexpr (!std::is_same_v<T, A>)
            if (!d.wide) return store_rounded(reinterpret_cast<T*>(d.data) + i, value);
        store<A>(reinterpret_cast<A*>(d.data) + i, value, streaming);
    }
    static void one(const Destination& d, std::int64_t i, A value) {
        if constexpr (!std::is_same_v<T, A>)
            if (!d.wide) {
                reinterpret_cast<T*>(d.data)[i] = T(value);
                return;
            }
        reinterpret_cast<A*>(d.data)[i] = value;
    }
};

// The canonical tree over the sources first .. first + k - 1; k is known to the compiler.
template <class T, ReduceOp op, std::size_t k>
struct FixedTree {
    using A = accumulator_t<T>;
    static constexpr std::size_t left = std::bit_floor(k - 1);
    static Lanes<A> line(const Source* s, std::size_t, std::int64_t i) {
        if constexpr (k == 1) {
            return Reader<T>::line(s[0], i);
        } else {
            return apply_lanes<op, A>(FixedTree<T, op, left>::line(s, left, i),
                                      FixedTree<T, op, k - left>::line(s + left, k - left, i));
        }
    }
    static A one(const Source* s, std::size_t, std::int64_t i) {
        if constexpr (k == 1) {
            return Reader<T>::one(s[0], i);
        } else {
            return apply_one<op, A>(FixedTree<T, op, left>::one(s, left, i),
                                    FixedTree<T, op, k - left>::one(s + left, k - left, i));
        }
    }
};

template <class T, ReduceOp op>
struct AnyTree {
    using A = accumulator_t<T>;
    static Lanes<A> line(const Source* s, std::size_t k, std::int64_t i) {
        if (k == 1) return Reader<T>::line(s[0], i);
        const std::size_t left = std::bit_floor(k - 1);
        return apply_lanes<op, A>(line(s, left, i), line(s + left, k - left, i));
    }
    static A one(const Source* s, std::size_t k, std::int64_t i) {
        if (k == 1) return Reader<T>::one(s[0], i);
        const std::size_t left = std::bit_floor(k - 1);
        return apply_one<op, A>(one(s, left, i), one(s + left, k - left, i));
    }
};

struct Job {
    std::span<const Source> sources;
    std::span<const Destination> destinations;
    std::int64_t count;
    int divide_by;
    bool streaming;
};

// Elements before all destinations are at the start of a cache line, as streaming stores need; -1 if they never are
// together.
std::int64_t elements_to_alignment(std::span<const Destination> destinations, std::int64_t element_bytes) {
    const auto misaligned = [](const Destination& d) {
        return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(d.data) % kLineBytes);
    };
    const std::int64_t first = misaligned(destinations[0]);
    for (const Destination& d : destinations)
        if (misaligned(d) != first) return -1;
    const std::int64_t bytes = (kLineBytes - first) % kLineBytes;
    return bytes % element_bytes == 0 ? bytes / element_bytes : -1;
}

template <class T, class Tree>
void run(const Job& job) {
    using A = accumulator_t<T>;
    constexpr std::int64_t lanes = kLanes<A>;
    const Source* s = job.sources.data();
    const std::size_t k = job.sources.size();
    const A divisor = static_cast<A>(job.divide_by);
    const auto one = [&](std::int64_t i) {
        A value = Tree::one(s, k, i);
        if (job.divide_by > 1) value = static_cast<A>(value / divisor);
        for (const Destination& d : job.destinations) Writer<T>::one(d, i, value);
    };
    const std::int64_t head = job.streaming ? elements_to_alignment(job.destinations, sizeof(A)) : 0;
    const bool streaming = job.streaming && head >= 0;
    std::int64_t i = 0;
    for (; i < std::min(head, job.count); ++i) one(i);
    for (; i + kGroup * lanes <= job.count; i += kGroup * lanes) {
        Lanes<A> group[kGroup];
        for (int g = 0; g < kGroup; ++g) group[g] = Tree::line(s, k, i + g * lanes);
        if (job.divide_by > 1)
            for (auto& line : group) line = line / divisor;
        for (const Destination& d : job.destinations)
            for (int g = 0; g < kGroup; ++g) Writer<T>::line(d, i + g * lanes, group[g], streaming);
    }
    for (; i < job.count; ++i) one(i);
    if (streaming) streaming_fence();
}

template <class T, ReduceOp op>
void run_sources(const Job& job) {
    switch (job.sources.size()) {
        case 1: return run<T, FixedTree<T, op, 1>>(job);
        case 2: return run<T, FixedTree<T, op, 2>>(job);
        case 3: return run<T, FixedTree<T, op, 3>>(job);
        case 4: return run<T, FixedTree<T, op, 4>>(job);
        case 8: return run<T, FixedTree<T, op, 8>>(job);
        default: return run<T, AnyTree<T, op>>(job);
    }
}

bool is_copy(const Combination& how, std::span<const Source> sources, std::span<const Destination> destinations) {
    if (sources.size() != 1 || how.divide_by > 1) return false;
    for (const Destination& d : destinations)
        if (how.dtype == DType::bf16 && d.wide != sources[0].wide) return false;
    return true;
}

void copy(std::span<const Source> sources, std::span<const Destination> destinations, std::int64_t bytes,
          bool streaming) {
    if (destinations.size() > 1 || streaming)
        return run<std::uint8_t, FixedTree<std::uint8_t, ReduceOp::sum, 1>>(
            {sources, destinations, bytes, 1, streaming});
    if (destinations[0].data != sources[0].data)
        std::memcpy(destinations[0].data, sources[0].data, static_cast<std::size_t>(bytes));
}

}  // namespace

void combine(const Combination& how, std::span<const Source> sources, std::span<const Destination> destinations,
             std::int64_t count) {
    if (count == 0) return;
    if (is_copy(how, sources, destinations)) {
        const bool wide = how.dtype == DType::bf16 && sources[0].wide;
        return copy(sources, destinations, count * (wide ? size_of(DType::f32) : size_of(how.dtype)), how.streaming);
    }
    const Job job{sources, destinations, count, how.divide_by, how.streaming};
    dispatch(how.dtype, [&](auto element) {
        using T = decltype(element);
        switch (how.op) {
            case ReduceOp::sum:
            case ReduceOp::avg: return run_sources<T, ReduceOp::sum>(job);
            case ReduceOp::max: return run_sources<T, ReduceOp::max>(job);
            case ReduceOp::min: return run_sources<T, ReduceOp::min>(job);
        }
    });
}

void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes, bool streaming) {
    const Source source{from, false};
    const Destination destination{to, false};
    copy({&source, 1}, {&destination, 1}, bytes, streaming);
}

}  // namespace cleave::comm
