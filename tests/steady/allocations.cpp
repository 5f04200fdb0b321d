#include "allocations.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>

// glibc's own functions, under the names that it keeps for programs that replace the others.
extern "C" {
void* __libc_malloc(std::size_t) noexcept;
void* __libc_calloc(std::size_t, std::size_t) noexcept;
void* __libc_realloc(void*, std::size_t) noexcept;
void* __libc_memalign(std::size_t, std::size_t) noexcept;
}

namespace cleave::test {
namespace {

constinit std::atomic<std::int64_t> large_requests{0};
constinit std::atomic<std::int64_t> small_requests{0};
constinit std::atomic<std::int64_t> last_large_request{0};

void count(std::size_t bytes) {
    if (bytes < kLargeBytes) {
        small_requests.fetch_add(1, std::memory_order_relaxed);
        return;
    }
    large_requests.fetch_add(1, std::memory_order_relaxed);
    last_large_request.store(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
}

}  // namespace

Allocations allocations() {
    return {large_requests.load(), small_requests.load(), last_large_request.load()};
}

}  // namespace cleave::test

extern "C" {

void* malloc(std::size_t bytes) noexcept {
    cleave::test::count(bytes);
    return __libc_malloc(bytes);
}

void* calloc(std::size_t count, std::size_t bytes) noexcept {
    cleave::test::count(count * bytes);
    return __libc_calloc(count, bytes);
}

void* realloc(void* block, std::size_t bytes) noexcept {
    cleave::test::count(bytes);
    return __libc_realloc(block, bytes);
}

void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
    cleave::test::count(bytes);
    return __libc_memalign(alignment, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
    return memalign(alignment, bytes);
}

int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) noexcept {
    void* found = memalign(alignment, bytes);
    if (found == nullptr) return ENOMEM;
    *block = found;
    return 0;
}
}
