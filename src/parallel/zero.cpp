#include "parallel/zero.h"

#include "parallel/data_parallel.h"

namespace cleave {

std::vector<AxisId> zero_axes(const Mesh& mesh) {
    if (mesh.has("dp.in")) return {mesh.axis("dp.in")};
    return batch_axes(mesh);
}

void split_for_zero(Mesh& mesh, int group) {
    const int dp = mesh.size(mesh.axis("dp"));
    if (group == 0 || group == dp) return;
    CLEAVE_CHECK(group > 0 && dp % group == 0, "groups of {} in dp = {}", group, dp);
    mesh.add_view({"dp"}, {{"dp.out", dp / group}, {"dp.in", group}});
}

}  // namespace cleave
