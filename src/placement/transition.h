// The transition table: communication is the change from one placement to another.
//
//     from \ to   R            I            S(j)             P
//     R           nothing      nothing      slice            keep first
//     I           nothing      nothing      slice            keep first
//     S(i)        all_gather   all_gather   all_to_all (*)   zero pad
//     P           all_reduce   all_reduce   reduce_scatter   nothing
//     (*) nothing where both are the same cut (dim and unit)
//
// The backward of a -> b is dual(b) -> dual(a). A change to P keeps the value on the group's first rank and is zero
// elsewhere (exact for every group size). Every action is linear, and dual(dual(t)) = t.
// Thread rule: values.
#pragma once

#include <cstdint>
#include <string_view>

#include "placement/placement.h"

namespace cleave {

enum class Action : std::uint8_t {
    nothing,     // the local values stay
    slice,       // each rank keeps its piece of what it holds
    keep_first,  // the first rank of the group keeps its value, the others hold zeros
    zero_pad,    // each rank holds its piece in a tensor of zeros
    all_gather,
    all_reduce,
    reduce_scatter,
    all_to_all,
};

std::string_view name_of(Action action);
bool communicates(Action action);

struct Transition {
    Placement from;
    Placement to;

    Action action() const;
    // The transition of the gradient: dual(to) -> dual(from).
    Transition dual() const { return {cleave::dual(to), cleave::dual(from)}; }
    friend bool operator==(const Transition&, const Transition&) = default;
};

}  // namespace cleave
