#include "cluster/ledger.h"

#include <algorithm>

#include "base/error.h"

namespace cleave {

std::string_view name_of(MemoryKind kind) {
    switch (kind) {
        case MemoryKind::parameters: return "parameters";
        case MemoryKind::master_weights: return "master_weights";
        case MemoryKind::gradients: return "gradients";
        case MemoryKind::optimizer: return "optimizer";
        case MemoryKind::activations: return "activations";
        case MemoryKind::communication: return "communication";
        case MemoryKind::workspace: return "workspace";
    }
    return "?";
}

void Ledger::allocate(MemoryKind kind, std::int64_t bytes) {
    const auto k = static_cast<std::size_t>(kind);
    live_ += bytes;
    live_by_kind_[k] += bytes;
    peak_by_kind_[k] = std::max(peak_by_kind_[k], live_by_kind_[k]);
    if (live_ > peak_) {
        peak_ = live_;
        at_peak_ = live_by_kind_;
    }
}

void Ledger::free(MemoryKind kind, std::int64_t bytes) {
    const auto k = static_cast<std::size_t>(kind);
    CLEAVE_CHECK(live_by_kind_[k] >= bytes, "{} freed beyond what lives", name_of(kind));
    live_ -= bytes;
    live_by_kind_[k] -= bytes;
}

void Ledger::reset_peak() {
    peak_ = live_;
    at_peak_ = live_by_kind_;
    peak_by_kind_ = live_by_kind_;
}

}  // namespace cleave
