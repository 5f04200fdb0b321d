#include "placement/placement.h"

namespace cleave {

using Kind = Placement::Kind;

Placement dual(Placement placement) {
    switch (placement.kind) {
        case Kind::R: return P;
        case Kind::P: return R;
        case Kind::I:
        case Kind::S: return placement;
    }
    return placement;
}

std::string to_string(Placement placement) {
    switch (placement.kind) {
        case Kind::R: return "R";
        case Kind::I: return "I";
        case Kind::P: return "P";
        case Kind::S:
            return placement.unit == 1 ? fmt::format("S({})", int{placement.dim})
                                       : fmt::format("S({}, unit {})", int{placement.dim}, placement.unit);
    }
    return "?";
}

Range cut(std::int64_t length, int index, int count, std::int64_t unit) {
    CLEAVE_CHECK(length % unit == 0 && index >= 0 && index < count, "cut {} units of {} in {}", length, unit, count);
    const std::int64_t units = length / unit;
    return {index * units / count * unit, (index + 1) * units / count * unit};
}

Layout::Layout(std::initializer_list<Entry> entries) {
    for (const Entry& entry : entries) *this = with(entry.axis, entry.placement);
}

Placement Layout::at(AxisId axis) const {
    for (const Entry& entry : *this)
        if (entry.axis == axis) return entry.placement;
    return I;
}

Layout Layout::with(AxisId axis, Placement to) const {
    Layout result;
    bool placed = false;
    auto keep = [&](const Entry& entry) {
        CLEAVE_CHECK(result.count_ < kMaxAxes);
        result.entries_[static_cast<std::size_t>(result.count_++)] = entry;
    };
    for (const Entry& entry : *this) {
        if (entry.axis != axis) {
            keep(entry);
        } else {
            placed = true;
            if (to != I) keep({axis, to});
        }
    }
    if (!placed && to != I) keep({axis, to});
    return result;
}

Layout Layout::dual() const {
    Layout result = *this;
    for (int i = 0; i < count_; ++i) {
        Entry& entry = result.entries_[static_cast<std::size_t>(i)];
        entry.placement = cleave::dual(entry.placement);
    }
    return result;
}

bool operator==(const Layout& a, const Layout& b) {
    if (a.count_ != b.count_) return false;
    for (const auto& entry : a)
        if (b.at(entry.axis) != entry.placement) return false;
    // Same cuts; now their order, dim by dim.
    auto next_cut = [](const Layout& layout, int dim, int from) {
        for (int i = from; i < layout.count_; ++i) {
            const auto& entry = layout.entries_[static_cast<std::size_t>(i)];
            if (entry.placement.is(Kind::S) && entry.placement.dim == dim) return i;
        }
        return -1;
    };
    for (int dim = 0; dim < kMaxRank; ++dim) {
        int i = next_cut(a, dim, 0);
        int j = next_cut(b, dim, 0);
        while (i >= 0 && j >= 0) {
            if (a.entries_[static_cast<std::size_t>(i)].axis != b.entries_[static_cast<std::size_t>(j)].axis) return false;
            i = next_cut(a, dim, i + 1);
            j = next_cut(b, dim, j + 1);
        }
    }
    return true;
}

std::string to_string(const Layout& layout, const Mesh& mesh) {
    std::string text;
    for (const auto& entry : layout)
        text += fmt::format("{}{}:{}", text.empty() ? "" : " ", mesh.name(entry.axis), to_string(entry.placement));
    return text.empty() ? "I" : text;
}

std::vector<Range> local_ranges(const Shape& shape, const Layout& layout, const Mesh& mesh, int rank) {
    std::vector<Range> ranges;
    ranges.reserve(static_cast<std::size_t>(shape.rank()));
    for (auto extent : shape) ranges.push_back({0, extent});
    for (const auto& [axis, placement] : layout) {
        if (!placement.is(Kind::S)) continue;
        CLEAVE_CHECK(placement.dim < shape.rank(), "S({}) of a tensor {}", int{placement.dim}, to_string(shape));
        Range& range = ranges[static_cast<std::size_t>(placement.dim)];
        const Range piece = cut(range.length(), mesh.coordinate(rank, axis), mesh.size(axis), placement.unit);
        range = {range.begin + piece.begin, range.begin + piece.end};
    }
    return ranges;
}

Shape local_shape(const Shape& shape, const Layout& layout, const Mesh& mesh, int rank) {
    Shape local;
    for (const Range& range : local_ranges(shape, layout, mesh, rank)) local.push_back(range.length());
    return local;
}

std::string problem_with(const Shape& shape, const Layout& layout, const Mesh& mesh) {
    std::vector<std::int64_t> smallest(shape.begin(), shape.end());  // the shortest piece so far
    for (const auto& [axis, placement] : layout) {
        for (const auto& other : layout)
            if (other.axis != axis && !mesh.disjoint(axis, other.axis))
                return fmt::format("axes {} and {} run over the same ranks", mesh.name(axis), mesh.name(other.axis));
        if (!placement.is(Kind::S)) continue;
        if (placement.dim < 0 || placement.dim >= shape.rank())
            return fmt::format("{} has no dim {}", to_string(shape), int{placement.dim});
        auto& extent = smallest[static_cast<std::size_t>(placement.dim)];
        if (placement.unit < 1 || extent % placement.unit != 0)
            return fmt::format("dim {} of {} is no multiple of its unit {}", int{placement.dim}, to_string(shape),
                               placement.unit);
        if (extent / placement.unit < mesh.size(axis))
            return fmt::format("dim {} of {} has {} units for {} ranks along {}", int{placement.dim}, to_string(shape),
                               extent / placement.unit, mesh.size(axis), mesh.name(axis));
        extent = extent / placement.unit / mesh.size(axis) * placement.unit;
    }
    return {};
}

}  // namespace cleave
