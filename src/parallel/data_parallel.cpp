#include "parallel/data_parallel.h"

namespace cleave {

std::vector<AxisId> batch_axes(const Mesh& mesh) {
    if (mesh.has("dp.in")) return {mesh.axis("dp.out"), mesh.axis("dp.in")};
    return {mesh.axis("dp")};
}

ModelLayouts data_parallel_layouts(const Mesh& mesh) {
    ModelLayouts layouts;
    for (const AxisId axis : batch_axes(mesh)) {
        layouts.tokens.set(axis, S(0));
        layouts.cut_parameter.set(axis, R);
    }
    layouts.stream = layouts.products = layouts.tokens;
    layouts.stream_parameter = layouts.sum_parameter = layouts.cut_parameter;
    return layouts;
}

}  // namespace cleave
