// What memory gives: the rates of a copy and of a pure read by the whole team, and a kernel's share of them. A kernel
// that reads more than it writes is held against the read as well: a core has so many loads under way and no more, and
// a copy's stores come on top of them. Thread rule: as parallel_for.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "buffer.h"
#include "kernels/simd.h"
#include "kernels/team.h"

namespace cleave::bench {

// As memcpy, past the caches where the processor can.
inline void stream(char* to, const char* from, std::int64_t bytes) {
#if CLEAVE_AVX512
    for (std::int64_t i = 0; i < bytes; i += 64)
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), _mm512_loadu_si512(from + i));
    _mm_sfence();
#else
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
#endif
}

// Every byte is loaded and nothing else is done that could take longer.
inline void read(const char* from, std::int64_t bytes) {
    kernels::simd::f32x16 sums[4]{};
    const auto* values = reinterpret_cast<const float*>(from);
    for (std::int64_t i = 0; i + 64 <= bytes / 4; i += 64)
        for (int k = 0; k < 4; ++k) sums[k] += kernels::simd::load(values + i + 16 * k);
    for (const auto& sum : sums) asm volatile("" : : "m"(sum));  // wanted by nobody, and yet computed
}

// As `read`, with the lines to come asked for ahead of the processor's own prefetching.
inline void fetching_read(const char* from, std::int64_t bytes) {
    constexpr std::int64_t kAhead = 8192;
    kernels::simd::f32x16 sums[4]{};
    const auto* values = reinterpret_cast<const float*>(from);
    for (std::int64_t i = 0; i + 64 <= bytes / 4; i += 64)
        for (int k = 0; k < 4; ++k) {
            __builtin_prefetch(from + 4 * i + 64 * k + kAhead, 0, 3);
            sums[k] += kernels::simd::load(values + i + 16 * k);
        }
    for (const auto& sum : sums) asm volatile("" : : "m"(sum));
}

struct MemoryShares {
    double of_copy, of_read;
};

// Of a kernel that moves `bytes` in a call, `run`, over operands of so many bytes together. Copy and read go over as
// much memory, so that caches help all of them alike, each by the faster of its ways. All are timed in turns, and the
// shares are medians over the rounds: what else goes on in the machine's memory meets all of them.
template <class F>
MemoryShares shares_of_memory(std::int64_t operands, double bytes, F&& run) {
    using Clock = std::chrono::steady_clock;
    constexpr int kRounds = 15;
    const std::int64_t half = operands / 512 * 256;
    const Buffer from = buffer(2 * half), to = buffer(half);
    auto* in = static_cast<char*>(from.get());
    auto* out = static_cast<char*>(to.get());
    auto copied = [&](auto&& copy) {
        kernels::parallel_for(
            half, 65536, [&](std::int64_t begin, std::int64_t end) { copy(out + begin, in + begin, end - begin); });
    };
    auto all_read = [&](auto&& read) {
        kernels::parallel_for(2 * half, 65536,
                              [&](std::int64_t begin, std::int64_t end) { read(in + begin, end - begin); });
    };
    // Seconds a call, behind one that brings what a cache can hold.
    auto time = [&](auto&& f, int calls) {
        f();
        const auto begin = Clock::now();
        for (int i = 0; i < calls; ++i) f();
        return std::chrono::duration<double>(Clock::now() - begin).count() / calls;
    };
    const int calls = std::clamp(static_cast<int>(2e-4 / std::max(1e-7, time(run, 3))), 1, 1000);
    auto plain_copy = [](char* t, const char* f, std::int64_t n) { std::memcpy(t, f, static_cast<std::size_t>(n)); };
    // The faster of two ways, by the least of some calls.
    auto faster = [&](const std::function<void()>& a, const std::function<void()>& b) {
        double first = time(a, calls), second = time(b, calls);
        for (int i = 0; i < 4; ++i) {
            first = std::min(first, time(a, calls));
            second = std::min(second, time(b, calls));
        }
        return first < second ? a : b;
    };
    const auto copy = faster([&] { copied(plain_copy); }, [&] { copied(stream); });
    const auto load = faster([&] { all_read(read); }, [&] { all_read(fetching_read); });
    const double moved = 2.0 * static_cast<double>(half);
    std::vector<double> of_copy, of_read;
    for (int round = 0; round < kRounds; ++round) {
        const double rate = bytes / time(run, calls);
        of_copy.push_back(rate / moved * time(copy, calls));
        of_read.push_back(rate / moved * time(load, calls));
    }
    auto median = [](std::vector<double>& values) {
        std::nth_element(values.begin(), values.begin() + kRounds / 2, values.end());
        return values[kRounds / 2];
    };
    return {median(of_copy), median(of_read)};
}

}  // namespace cleave::bench
