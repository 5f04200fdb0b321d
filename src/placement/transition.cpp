#include "placement/transition.h"

namespace cleave {

using Kind = Placement::Kind;

std::string_view name_of(Action action) {
    switch (action) {
        case Action::nothing: return "nothing";
        case Action::slice: return "slice";
        case Action::keep_first: return "keep_first";
        case Action::zero_pad: return "zero_pad";
        case Action::all_gather: return "all_gather";
        case Action::all_reduce: return "all_reduce";
        case Action::reduce_scatter: return "reduce_scatter";
        case Action::all_to_all: return "all_to_all";
    }
    return "?";
}

bool communicates(Action action) {
    return action == Action::all_gather || action == Action::all_reduce || action == Action::reduce_scatter ||
           action == Action::all_to_all;
}

Action Transition::action() const {
    switch (from.kind) {
        case Kind::R:
        case Kind::I:
            if (to.is(Kind::S)) return Action::slice;
            if (to.is(Kind::P)) return Action::keep_first;
            return Action::nothing;
        case Kind::S:
            if (to.is(Kind::S)) return from == to ? Action::nothing : Action::all_to_all;
            if (to.is(Kind::P)) return Action::zero_pad;
            return Action::all_gather;
        case Kind::P:
            if (to.is(Kind::S)) return Action::reduce_scatter;
            if (to.is(Kind::P)) return Action::nothing;
            return Action::all_reduce;
    }
    return Action::nothing;
}

}  // namespace cleave
