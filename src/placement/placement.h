// What a tensor is on each rank of a group. Per mesh axis one of
//   R     replicate: the same on every rank; its gradient is P
//   I     invariant: the same on every rank; its gradient is I (the same on every rank)
//   S(d)  shard: a slice along dim d; its gradient is S(d)
//   P     partial: a term of the sum; its gradient is R
// A Layout gives one placement per axis. An axis that it does not name is I: nothing is known of that axis, the tensor
// and its gradient are the same along it. Where several axes cut one dim, they cut in the order in which the layout
// names them, outermost first. Rank r of n holds [floor(r L / n), floor((r + 1) L / n)) of L units. Thread rule:
// values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/shape.h"
#include "placement/mesh.h"

namespace cleave {

struct Placement {
    enum class Kind : std::uint8_t { R, I, S, P };
    Kind kind = Kind::I;
    std::int8_t dim = 0;    // S only
    std::int32_t unit = 1;  // S only: elements of the dim that stay together (heads, vocabulary blocks)

    bool is(Kind k) const { return kind == k; }
    friend bool operator==(const Placement&, const Placement&) = default;
};

inline constexpr Placement R{Placement::Kind::R};
inline constexpr Placement I{Placement::Kind::I};
inline constexpr Placement P{Placement::Kind::P};
constexpr Placement S(int dim, int unit = 1) {
    return {Placement::Kind::S, static_cast<std::int8_t>(dim), static_cast<std::int32_t>(unit)};
}

// The placement of the gradient.
Placement dual(Placement placement);
std::string to_string(Placement placement);  // "R", "S(0)"

// A half-open range of indices along one dim.
struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t length() const { return end - begin; }
    friend bool operator==(const Range&, const Range&) = default;
};

// Piece `index` of `count` of [0, length), cut at multiples of `unit`. Pieces tile the range exactly.
Range cut(std::int64_t length, int index, int count, std::int64_t unit = 1);

class Layout {
  public:
    struct Entry {
        AxisId axis;
        Placement placement;
    };

    Layout() = default;
    Layout(std::initializer_list<Entry> entries);

    Placement at(AxisId axis) const;               // I where the axis is not named
    void set(AxisId axis, Placement to);           // a new cut becomes the innermost
    Layout with(AxisId axis, Placement to) const;  // a copy, set
    Layout dual() const;

    const Entry* begin() const { return entries_.data(); }
    const Entry* end() const { return entries_.data() + count_; }
    int count() const { return count_; }

    // Equal where every axis has the same placement and every dim is cut by the same axes in the same order.
    friend bool operator==(const Layout& a, const Layout& b);

  private:
    static constexpr int kMaxAxes = 8;
    std::array<Entry, kMaxAxes> entries_{};  // I is not kept
    int count_ = 0;
};

std::string to_string(const Layout& layout, const Mesh& mesh);  // "dp:S(0) tp:P"; "I" where no axis is named

// The part of a tensor of `shape` that `rank` holds: for every dim a range of global indices.
std::vector<Range> local_ranges(const Shape& shape, const Layout& layout, const Mesh& mesh, int rank);
Shape local_shape(const Shape& shape, const Layout& layout, const Mesh& mesh, int rank);

// Empty if `layout` can place a tensor of `shape`; otherwise what is wrong: a dim that does not exist, an extent that
// is no multiple of the unit, fewer units than ranks, axes that overlap.
std::string problem_with(const Shape& shape, const Layout& layout, const Mesh& mesh);

}  // namespace cleave
