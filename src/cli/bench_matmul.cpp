#include "cli/bench_matmul.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/words.h"
#include "cli/product_text.h"
#include "cli/table_text.h"
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

struct Result {
    kernels::Gemm gemm;
    double median, min, max;  // microseconds

    double gflops_per_s() const { return kernels::flops_of(gemm) / median / 1e3; }
    const char* by() const { return gemm.input == DType::f64 ? "cleave" : "oneDNN"; }
};

Result measured(const ProductTimer& timer, std::size_t index, int rounds) {
    std::vector<double> times(static_cast<std::size_t>(rounds));
    timer.seconds(index, 1);  // a warm-up
    for (double& time : times) time = timer.seconds(index, 1) * 1e6;
    const auto [min, max] = std::minmax_element(times.begin(), times.end());
    return {timer.gemms()[index], median(times), *min, *max};
}

void print_table(const std::vector<Result>& results, int rounds, std::FILE* out) {
    fmt::print(out,
               "m x n x k of y[m n] = a[m k] b[k n], t: stored transposed; {}, {}\n{:38} {:>6} {:>8} "
               "{:>8} {:>8} {:>7}\n",
               counted(kernels::team_size(), "thread"), counted(rounds, "call"), "product", "by", "us", "least", "most",
               "GFLOP/s");
    for (const Result& r : results)
        fmt::print(out, "{:38} {:>6} {:>8} {:>8} {:>8} {:>7.1f}\n", product_text(r.gemm), r.by(),
                   short_number(r.median), short_number(r.min), short_number(r.max), r.gflops_per_s());
}

Json document(const std::vector<Result>& results, int rounds) {
    Json rows = Json::array();
    for (const Result& r : results) {
        Json row = product_json(r.gemm);
        row.set("by", r.by()).set("time_us", Json{{"median", r.median}, {"min", r.min}, {"max", r.max}});
        rows.push(row.set("gflops_per_s", r.gflops_per_s()));
    }
    return Json{{"operation", "matmul"}, {"threads", kernels::team_size()}, {"iterations", rounds}}.set(
        "results", std::move(rows));
}

}  // namespace

int bench_matmul(const BenchMatmulOptions& options, std::FILE* out) {
    std::vector<kernels::Gemm> gemms;
    for (const DType dtype : options.dtypes) gemms.push_back(gemm_of(options, dtype));
    const ProductTimer timer(std::move(gemms));
    std::vector<Result> results;
    for (std::size_t i = 0; i < timer.gemms().size(); ++i) results.push_back(measured(timer, i, options.rounds));
    if (options.json)
        fmt::print(out, "{}\n", document(results, options.rounds).dump(2));
    else
        print_table(results, options.rounds, out);
    return kExitOk;
}

}  // namespace cleave::cli
