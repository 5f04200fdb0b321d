#include "placement/mesh.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace cleave {

namespace {

void check_axes(const std::vector<Axis>& axes) {
    for (const Axis& axis : axes) {
        if (axis.name.empty()) throw UserError("a mesh axis needs a name");
        if (axis.size < 1) throw UserError("mesh axis {}: size {} found, at least 1 accepted", axis.name, axis.size);
    }
}

}  // namespace

Mesh::Mesh(std::vector<Axis> base_axes) {
    check_axes(base_axes);
    base_count_ = static_cast<int>(base_axes.size());
    base_strides_.resize(base_axes.size());
    for (int i = base_count_ - 1; i >= 0; --i) {
        base_strides_[static_cast<std::size_t>(i)] = world_size_;
        const Axis& axis = base_axes[static_cast<std::size_t>(i)];
        if (axis.size > std::numeric_limits<int>::max() / world_size_)
            throw UserError("mesh axis {}: size {} makes the world larger than {} ranks", axis.name, axis.size,
                            std::numeric_limits<int>::max());
        world_size_ *= axis.size;
    }
    for (int i = 0; i < base_count_; ++i) {
        const Axis& axis = base_axes[static_cast<std::size_t>(i)];
        if (has(axis.name)) throw UserError("mesh axis {} is named twice", axis.name);
        axes_.push_back({axis.name, axis.size, {i}, 1, 0});
    }
}

void Mesh::add_view(const std::vector<std::string>& replaced, std::vector<Axis> axes) {
    check_axes(axes);
    std::vector<int> parents;
    int product = 1;
    for (const std::string& name : replaced) {
        const AxisId parent = axis(name);
        CLEAVE_CHECK(parent < base_count_, "a view replaces base axes only, not {}", name);
        CLEAVE_CHECK(std::find(parents.begin(), parents.end(), parent) == parents.end(), "a view replaces {} twice",
                     name);
        parents.push_back(parent);
        product *= size(parent);
    }
    std::int64_t view_product = 1;
    for (std::size_t i = 0; i < axes.size(); ++i) {
        auto same_name = [&](const Axis& other) { return other.name == axes[i].name; };
        if (has(axes[i].name) || std::any_of(axes.begin() + static_cast<std::ptrdiff_t>(i) + 1, axes.end(), same_name))
            throw UserError("mesh axis {} is named twice", axes[i].name);
        view_product = std::min<std::int64_t>(view_product * axes[i].size, std::numeric_limits<int>::max());
    }
    if (view_product != product)
        throw UserError("the view's axes multiply to {}, but the axes they stand for to {}", view_product, product);
    ++view_count_;
    int divisor = product;
    for (const Axis& axis : axes) {
        divisor /= axis.size;
        axes_.push_back({axis.name, axis.size, parents, divisor, view_count_});
    }
}

const Mesh::Node& Mesh::at(AxisId axis) const {
    CLEAVE_CHECK(axis >= 0 && axis < axis_count(), "axis {}", axis);
    return axes_[static_cast<std::size_t>(axis)];
}

bool Mesh::has(std::string_view name) const {
    return std::any_of(axes_.begin(), axes_.end(), [&](const Node& node) { return node.name == name; });
}

AxisId Mesh::axis(std::string_view name) const {
    for (int i = 0; i < axis_count(); ++i)
        if (axes_[static_cast<std::size_t>(i)].name == name) return i;
    std::string known;
    for (const Node& node : axes_) known += (known.empty() ? "" : ", ") + node.name;
    throw UserError("unknown mesh axis '{}'; known are {}", name, known);
}

int Mesh::base_digit(int rank, int base) const {
    return rank / base_strides_[static_cast<std::size_t>(base)] % axes_[static_cast<std::size_t>(base)].size;
}

int Mesh::parents_index(int rank, const Node& node) const {
    int index = 0;
    for (int parent : node.parents)
        index = index * axes_[static_cast<std::size_t>(parent)].size + base_digit(rank, parent);
    return index;
}

int Mesh::coordinate(int rank, AxisId axis) const {
    CLEAVE_CHECK(rank >= 0 && rank < world_size_, "rank {}", rank);
    const Node& node = at(axis);
    return parents_index(rank, node) / node.divisor % node.size;
}

int Mesh::joint_coordinate(int rank, const std::vector<AxisId>& axes) const {
    int index = 0;
    for (AxisId axis : axes) index = index * size(axis) + coordinate(rank, axis);
    return index;
}

int Mesh::joint_size(const std::vector<AxisId>& axes) const {
    int product = 1;
    for (AxisId axis : axes) product *= size(axis);
    return product;
}

std::vector<int> Mesh::group(int rank, const std::vector<AxisId>& axes) const {
    // Along axis a the coordinate moves by changing the joint index of its parents by a multiple of the divisor; walk
    // that index back to a rank. The axes are disjoint, so the moves add up.
    for (std::size_t i = 0; i < axes.size(); ++i)
        for (std::size_t j = i + 1; j < axes.size(); ++j)
            CLEAVE_CHECK(disjoint(axes[i], axes[j]), "a group along {} and {}", name(axes[i]), name(axes[j]));
    std::vector<int> ranks{rank};
    for (AxisId axis : axes) {
        const Node& node = at(axis);
        std::vector<int> next;
        next.reserve(ranks.size() * static_cast<std::size_t>(node.size));
        for (int from : ranks) {
            const int index = parents_index(from, node);
            const int own = index / node.divisor % node.size;
            for (int c = 0; c < node.size; ++c) {
                int moved = index + (c - own) * node.divisor;
                int to = from;
                for (auto parent = node.parents.rbegin(); parent != node.parents.rend(); ++parent) {
                    const int extent = axes_[static_cast<std::size_t>(*parent)].size;
                    const int digit = moved % extent;
                    moved /= extent;
                    to += (digit - base_digit(from, *parent)) * base_strides_[static_cast<std::size_t>(*parent)];
                }
                next.push_back(to);
            }
        }
        ranks = std::move(next);
    }
    return ranks;
}

bool Mesh::disjoint(AxisId a, AxisId b) const {
    const Node& x = at(a);
    const Node& y = at(b);
    // Two digits of one view do not overlap although they share their parents.
    if (a != b && x.view == y.view) return true;
    return std::none_of(x.parents.begin(), x.parents.end(), [&](int parent) {
        return std::find(y.parents.begin(), y.parents.end(), parent) != y.parents.end();
    });
}

std::string Mesh::coordinates(int rank) const {
    std::string text;
    for (int i = 0; i < axis_count(); ++i)
        text += fmt::format("{}{}={}", i == 0 ? "" : " ", name(i), coordinate(rank, i));
    return text;
}

}  // namespace cleave
