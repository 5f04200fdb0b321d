// The memory ledger: what a rank holds, by kind, in program order. It states what the program declares; on the CPU
// engine the arena counts the same independently, and tests compare the two. Thread rule: one rank's thread.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace cleave {

enum class MemoryKind : std::uint8_t {
    parameters,      // in the dtype of the computation
    master_weights,  // f32 copies under bf16
    gradients,
    optimizer,
    activations,    // tokens, saved activations and their gradients
    communication,  // buffers that exist only to be sent or received
    workspace,      // scratch of one kernel
};
inline constexpr int kMemoryKinds = 7;
std::string_view name_of(MemoryKind kind);

using BytesByKind = std::array<std::int64_t, kMemoryKinds>;

class Ledger {
  public:
    void allocate(MemoryKind kind, std::int64_t bytes);
    void free(MemoryKind kind, std::int64_t bytes);
    // Starts a new measurement: peaks begin at what lives now.
    void reset_peak();

    std::int64_t live() const { return live_; }
    std::int64_t live(MemoryKind kind) const { return live_by_kind_[static_cast<std::size_t>(kind)]; }
    std::int64_t peak() const { return peak_; }                        // of the total
    const BytesByKind& at_peak() const { return at_peak_; }            // what made up the total's peak
    const BytesByKind& peak_by_kind() const { return peak_by_kind_; }  // each kind's own peak

  private:
    std::int64_t live_ = 0;
    std::int64_t peak_ = 0;
    BytesByKind live_by_kind_{};
    BytesByKind at_peak_{};
    BytesByKind peak_by_kind_{};
};

}  // namespace cleave
