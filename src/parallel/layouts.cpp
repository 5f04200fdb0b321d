#include "parallel/layouts.h"

namespace cleave {

Layout along(Layout layout, const std::vector<AxisId>& axes, Placement placement) {
    for (AxisId axis : axes) layout.set(axis, placement);
    return layout;
}

Layout ModelLayouts::cut(int dim) const {
    return along(cut_parameter, cut_axes, S(dim));
}

Layout ModelLayouts::cut_heads(int keys, int group) const {
    return along(along(cut_parameter, key_axes, S(keys)), group_axes, S(group));
}

Layout ModelLayouts::cut_keys(int keys) const {
    return along(along(cut_parameter, key_axes, S(keys)), group_axes, R);
}

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
