#include "cli/bench_matmul.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "cli/product_text.h"
#include "engine/product_timer.h"
#include "kernels/team.h"
#include "train/step_measure.h"

namespace cleave::cli {
namespace {

kernels::Gemm gemm_of(const BenchMatmulOptions& options, DType dtype) {
    kernels::Gemm gemm{.m = options.m, .n = options.n, .k = options.k, .input = dtype, .output = dtype};
    gemm.a_transposed = options.form.substr(0, 1) == "t";
    gemm.b_transposed = options.form.substr(std::min<std::size_t>(1, options.form.size())) == "t";
    return gemm;
}

}  // namespace

int bench_matmul(const BenchMatmulOptions& options, std::FILE* out) {
    std::vector<kernels::Gemm> gemms;
    for (const DType dtype : options.dtypes) gemms.push_back(gemm_of(options, dtype));
    const int team = kernels::team_size();
    const ProductTimer timer(gemms);
    if (!options.json)
        fmt::print(
            out,
            "m x n x k of y[m n] = a[m k] b[k n], t: stored transposed; {} threads, {} calls\n{:40} {:>8} {:>12} "
            "{:>12} {:>12} {:>10}\n",
            team, options.rounds, "product", "by", "median us", "min us", "max us", "GFLOP/s");
    Json rows = Json::array();
    for (std::size_t i = 0; i < gemms.size(); ++i) {
        std::vector<double> times;
        timer.seconds(i, 1);
        for (int round = 0; round < options.rounds; ++round) times.push_back(timer.seconds(i, 1) * 1e6);
        const auto [min, max] = std::minmax_element(times.begin(), times.end());
        const double middle = median(times);
        const double rate = kernels::flops_of(gemms[i]) / middle / 1e3;
        const char* by = gemms[i].input == DType::f64 ? "cleave" : "oneDNN";
        if (!options.json) {
            fmt::print(out, "{:40} {:>8} {:>12.2f} {:>12.2f} {:>12.2f} {:>10.1f}\n", product_text(gemms[i]), by, middle,
                       *min, *max, rate);
            continue;
        }
        Json row = product_json(gemms[i]);
        row.set("by", by).set("time_us", Json{{"median", middle}, {"min", *min}, {"max", *max}});
        rows.push(row.set("gflops_per_s", rate));
    }
    if (options.json)
        fmt::print(out, "{}\n",
                   Json{{"operation", "matmul"}, {"threads", team}, {"iterations", options.rounds}}
                       .set("results", std::move(rows))
                       .dump(2));
    return kExitOk;
}

}  // namespace cleave::cli
