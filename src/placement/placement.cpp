#include "placement/placement.h"

#include <algorithm>

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
    CLEAVE_CHECK(length >= 0 && unit >= 1 && length % unit == 0, "cut {} in units of {}", length, unit);
    CLEAVE_CHECK(index >= 0 && index < count, "piece {} of {}", index, count);
    const std::int64_t units = length / unit;
    return {index * units / count * unit, (index + 1) * units / count * unit};
}

Layout::Layout(std::initializer_list<Entry> entries) {
    for (const Entry& entry : entries) {
        CLEAVE_CHECK(at(entry.axis) == I, "a layout names axis {} twice", entry.axis);
        set(entry.axis, entry.placement);
    }
}

Placement Layout::at(AxisId axis) const {
    for (const Entry& entry : *this)
        if (entry.axis == axis) return entry.placement;
    return I;
}

void Layout::set(AxisId axis, Placement to) {
    Entry* const last = entries_.data() + count_;
    Entry* const found = std::find_if(entries_.data(), last, [&](const Entry& entry) { return entry.axis == axis; });
    // A slice is taken of what a rank holds, inside all cuts that are there already.
    const bool new_cut =
        to.is(Kind::S) && !(found != last && found->placement.is(Kind::S) && found->placement.dim == to.dim);
    if (found != last && to != I && !new_cut) {
        found->placement = to;
        return;
    }
    if (found != last) {
        std::move(found + 1, last, found);
        --count_;
    }
    if (to == I) return;
    CLEAVE_CHECK(count_ < kMaxAxes, "a layout names at most {} axes", kMaxAxes);
    entries_[static_cast<std::size_t>(count_++)] = {axis, to};
}

Layout Layout::with(AxisId axis, Placement to) const {
    Layout result = *this;
    result.set(axis, to);
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
            if (a.entries_[static_cast<std::size_t>(i)].axis != b.entries_[static_cast<std::size_t>(j)].axis)
                return false;
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
        CLEAVE_CHECK(placement.dim >= 0 && placement.dim < shape.rank(), "S({}) of a tensor {}", int{placement.dim},
                     to_string(shape));
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
    std::vector<std::vector<std::int64_t>> lengths;  // per dim the lengths that its pieces have so far, each once
    for (auto extent : shape) lengths.push_back({extent});
    for (const auto& [axis, placement] : layout) {
        for (const auto& other : layout)
            if (other.axis != axis && !mesh.disjoint(axis, other.axis))
                return fmt::format("axes {} and {} run over the same ranks", mesh.name(axis), mesh.name(other.axis));
        if (!placement.is(Kind::S)) continue;
        const int dim = placement.dim;
        const std::int64_t unit = placement.unit;
        const std::int64_t count = mesh.size(axis);
        if (dim < 0 || dim >= shape.rank()) return fmt::format("{} has no dim {}", to_string(shape), dim);
        std::vector<std::int64_t> pieces;
        for (auto length : lengths[static_cast<std::size_t>(dim)]) {
            const bool in_pieces = length != shape[dim];
            if (unit < 1 || length % unit != 0)
                return fmt::format("dim {} of {}{} is no multiple of its unit {}", dim, to_string(shape),
                                   in_pieces ? fmt::format(", a piece of {},", length) : "", unit);
            if (length / unit < count)
                return fmt::format("dim {} of {} has {} units{} for {} ranks along {}", dim, to_string(shape),
                                   length / unit, in_pieces ? " left" : "", count, mesh.name(axis));
            // Pieces have the rounded down or the rounded up length.
            pieces.push_back(length / unit / count * unit);
            if (length / unit % count != 0) pieces.push_back(pieces.back() + unit);
        }
        std::sort(pieces.begin(), pieces.end());
        pieces.erase(std::unique(pieces.begin(), pieces.end()), pieces.end());
        lengths[static_cast<std::size_t>(dim)] = std::move(pieces);
    }
    return {};
}

}  // namespace cleave
