#include "parallel/layouts.h"

namespace cleave {

Layout summed(const Layout& layout) {
    Layout result = layout;
    for (const auto& [axis, placement] : layout)
        if (placement.is(Placement::Kind::P)) result = result.with(axis, R);
    return result;
}

Layout sum_over_elements(const Layout& layout) {
    Layout result;
    for (const auto& [axis, placement] : layout)
        result = result.with(axis, placement.is(Placement::Kind::S) ? P : placement);
    return result;
}

}  // namespace cleave
