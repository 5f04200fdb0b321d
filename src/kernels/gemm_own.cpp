// Our own matrix product, in f64 (oneDNN has none). B is packed into panels of whole vectors, padded with zeros; tiles
// of y are summed in registers over a block of k and added up over the blocks.
#include <algorithm>

#include "kernels/gemm.h"
#include "kernels/team.h"
#include "kernels/tile.h"

namespace cleave::kernels {

namespace {

using namespace simd;

constexpr std::int64_t kWidth = 4 * kLanes<double>;  // columns of a panel
constexpr std::int64_t kDepth = 256;                 // of a block of k: a panel of it stays in the level-2 cache
constexpr std::int64_t kRows = 32;                   // of a tile of y
constexpr std::int64_t kWork = 1 << 18;              // multiply-adds that are worth a thread

std::int64_t panel_count(const Gemm& gemm) {
    return (gemm.n + kWidth - 1) / kWidth;
}

// panel[d, j] = b[first + d, column + j], zero beyond n.
void pack_panel(const Gemm& gemm, const double* b, std::int64_t first, std::int64_t depth, std::int64_t column,
                double* panel) {
    const std::int64_t width = std::min(kWidth, gemm.n - column);
    for (std::int64_t d = 0; d < depth; ++d) {
        double* row = panel + d * kWidth;
        for (std::int64_t j = 0; j < width; ++j)
            row[j] = gemm.b_transposed ? b[(column + j) * gemm.k + first + d] : b[(first + d) * gemm.n + column + j];
        std::fill(row + width, row + kWidth, 0.0);
    }
}

// What y holds before the product is added.
void begin_rows(const Gemm& gemm, const GemmOperands& operands, std::int64_t first, std::int64_t last) {
    double* y = static_cast<double*>(operands.y);
    const double* bias = static_cast<const double*>(operands.bias);
    for (std::int64_t r = first; r < last; ++r) {
        double* row = y + r * gemm.n;
        if (!gemm.accumulate) std::fill_n(row, gemm.n, 0.0);
        if (gemm.bias)
            for (std::int64_t j = 0; j < gemm.n; ++j) row[j] += bias[j];
    }
}

// y[rows, panel] += a[rows, block of k] panel, through a tile of whole vectors.
void add_tile(const Gemm& gemm, const double* a, const double* panel, double* y, std::int64_t row, std::int64_t rows,
              std::int64_t first, std::int64_t depth, std::int64_t column) {
    const TileA<double> factor = gemm.a_transposed ? TileA<double>{a + first * gemm.m + row, 1, gemm.m}
                                                   : TileA<double>{a + row * gemm.k + first, gemm.k, 1};
    alignas(64) double tile[kRows * kWidth];
    tile_product(factor, panel, kWidth, tile, kWidth, rows, 4, depth, Overwrite{});
    const std::int64_t width = std::min(kWidth, gemm.n - column);
    for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t j = 0; j < width; ++j) y[(row + r) * gemm.n + column + j] += tile[r * kWidth + j];
}

}  // namespace

std::int64_t own_workspace_bytes(const Gemm& gemm) {
    return panel_count(gemm) * std::min(kDepth, gemm.k) * kWidth * static_cast<std::int64_t>(sizeof(double));
}

void own_gemm(const Gemm& gemm, const GemmOperands& operands, void* workspace) {
    const double* a = static_cast<const double*>(operands.a);
    const double* b = static_cast<const double*>(operands.b);
    double* y = static_cast<double*>(operands.y);
    double* panels = static_cast<double*>(workspace);
    const std::int64_t count = panel_count(gemm);
    const std::int64_t row_blocks = (gemm.m + kRows - 1) / kRows;
    auto grain = [](std::int64_t work_of_one) {
        return std::max<std::int64_t>(1, kWork / std::max<std::int64_t>(1, work_of_one));
    };
    parallel_for(gemm.m, grain(gemm.n), [&](auto first, auto last) { begin_rows(gemm, operands, first, last); });
    for (std::int64_t first = 0; first < gemm.k; first += kDepth) {
        const std::int64_t depth = std::min(kDepth, gemm.k - first);
        parallel_for(count, grain(depth * kWidth), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t p = begin; p < end; ++p)
                pack_panel(gemm, b, first, depth, p * kWidth, panels + p * depth * kWidth);
        });
        parallel_for(row_blocks * count, grain(kRows * kWidth * depth), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                const std::int64_t p = i / row_blocks;
                const std::int64_t row = i % row_blocks * kRows;
                add_tile(gemm, a, panels + p * depth * kWidth, y, row, std::min(kRows, gemm.m - row), first, depth,
                         p * kWidth);
            }
        });
    }
}

}  // namespace cleave::kernels
