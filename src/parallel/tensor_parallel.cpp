#include "parallel/tensor_parallel.h"

#include <numeric>

namespace cleave {

HeadCut cut_heads(int tp, std::int64_t key_heads, std::int64_t group) {
    const auto keys = static_cast<int>(std::gcd(std::int64_t{tp}, key_heads));
    return {keys, group % (tp / keys) == 0 ? tp / keys : 0};
}

void add_head_axes(Mesh& mesh, std::int64_t key_heads, std::int64_t group) {
    const HeadCut heads = cut_heads(mesh.size(mesh.axis("tp")), key_heads, group);
    if (heads.groups > 1) mesh.add_view({"tp"}, {{"tp.kv", heads.keys}, {"tp.rep", heads.groups}});
}

void add_tensor_parallelism(ModelLayouts& layouts, const Mesh& mesh) {
    if (mesh.size(mesh.axis("tp")) == 1) return;
    if (mesh.has("tp.kv")) {
        layouts.key_axes = {mesh.axis("tp.kv")};
        layouts.group_axes = {mesh.axis("tp.rep")};
        layouts.cut_axes = {mesh.axis("tp.kv"), mesh.axis("tp.rep")};
    } else {
        layouts.key_axes = layouts.cut_axes = {mesh.axis("tp")};
    }
    layouts.products = along(layouts.products, layouts.cut_axes, R);
}

}  // namespace cleave
