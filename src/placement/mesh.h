// A mesh names the axes along which the ranks of a run are arranged. The base axes (pp, dp, cp, tp) multiply to the
// world size; the last of them varies fastest. A *view* factors some of the axes again over the same ranks: the expert
// view (edp, ep, etp in place of dp, cp, tp), or sub-axes (tp.kv and tp.rep in place of tp). Thread rule: immutable
// after construction of the last view; shared by all ranks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cleave {

using AxisId = int;

struct Axis {
    std::string name;
    int size = 1;
};

class Mesh {
  public:
    // Axes from the outermost (varies slowest with the rank) to the innermost. Throws UserError on a size below 1, an
    // empty or repeated name.
    explicit Mesh(std::vector<Axis> base_axes);

    // Adds a view: the joint index over `replaced` (outermost first, base axes) is factored into `axes`, the last
    // varying fastest. The sizes must multiply to the same number (UserError otherwise).
    void add_view(const std::vector<std::string>& replaced, std::vector<Axis> axes);

    int world_size() const { return world_size_; }
    int axis_count() const { return static_cast<int>(axes_.size()); }  // base axes, then those of the views
    int base_axis_count() const { return base_count_; }
    const std::string& name(AxisId axis) const { return at(axis).name; }
    int size(AxisId axis) const { return at(axis).size; }
    AxisId axis(std::string_view name) const;  // UserError naming the known axes
    bool has(std::string_view name) const;

    int coordinate(int rank, AxisId axis) const;
    // The index of `rank` in its group along `axes` taken together, the first varying slowest.
    int joint_coordinate(int rank, const std::vector<AxisId>& axes) const;
    int joint_size(const std::vector<AxisId>& axes) const;
    // The ranks that share every coordinate with `rank` except those along `axes` (one axis, or several taken together
    // as one group), by joint coordinate.
    std::vector<int> group(int rank, const std::vector<AxisId>& axes) const;

    // True where no base axis lies under both, or both are digits of one view: only then may one tensor be placed along
    // both.
    bool disjoint(AxisId a, AxisId b) const;

    std::string coordinates(int rank) const;  // "pp=0 dp=1 cp=0 tp=3", then each view's

  private:
    struct Node {
        std::string name;
        int size;
        std::vector<int> parents;  // base axes whose joint index this axis is a digit of (itself for a base axis)
        int divisor;               // digit = joint index of the parents / divisor % size
        int view;                  // 0 for base axes, then the views in the order of their addition
    };
    const Node& at(AxisId axis) const;
    int base_digit(int rank, int base) const;
    int parents_index(int rank, const Node& node) const;

    std::vector<Node> axes_;
    std::vector<int> base_strides_;
    int base_count_ = 0;
    int view_count_ = 0;
    int world_size_ = 1;
};

}  // namespace cleave
