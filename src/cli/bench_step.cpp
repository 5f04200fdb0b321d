#include "cli/bench_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/words.h"
#include "base/wrap.h"
#include "cli/model_job.h"
#include "cli/product_text.h"
#include "cli/table_text.h"
#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "train/dry_run_report.h"
#include "train/memory_check.h"

namespace cleave::cli {
namespace {

constexpr std::size_t kTextColumns = 80;
constexpr std::string_view kRatioFormula =
    "time of the step's matrix products alone, at the rate measured in this run on the same shapes / time of the step; "
    "attention counts 6 products (2 forward, 4 of the 5 backward) of 2 x t x s x d flops a head, their visible part "
    "(causal: half); recomputation is not counted";

struct Spread {
    double mean, min, max;
};

Spread spread_of(const StepMeasurement& m) {
    const auto [min, max] = std::minmax_element(m.step_seconds.begin(), m.step_seconds.end());
    return {m.mean_step_seconds(), *min, *max};
}

double tokens_per_s(const StepMeasurement& m) {
    return static_cast<double>(m.tokens) / m.mean_step_seconds();
}

double rate(double amount, double seconds) {
    return seconds > 0 ? amount / seconds / 1e9 : 0;
}

std::string_view product_library(const Job& job) {
    return job.train.dtype == DType::f64 ? "our own f64" : "oneDNN's";
}

void print_summary(const Job& job, const StepMeasurement& m, std::FILE* out) {
    const Spread spread = spread_of(m);
    fmt::print(out, "{} parameters, {} tokens a step ({} x {}), {}, {} of {}\n", m.parameters, m.tokens,
               job.train.batch, job.model.context, name_of(job.train.dtype), counted(m.ranks, "rank"),
               counted(m.team, "thread"));
    fmt::print(out, "step             {:.4f} s (min {:.4f}, max {:.4f}, of {})\n", spread.mean, spread.min, spread.max,
               m.step_seconds.size());
    fmt::print(out, "tokens / s       {:.1f}\n", tokens_per_s(m));
    fmt::print(out, "products alone   {:.4f} s at {} rates below\n", m.product_seconds, product_library(job));
    fmt::print(out, "roofline ratio   {:.3f} (median of {}) =\n                 {}\n", m.roofline_ratio(),
               counted(m.ratios.size(), "round"), wrapped(kRatioFormula, "                 ", kTextColumns));
    fmt::print(out, "peak memory      {:.1f} MB a rank; the arena extends over {:.1f} MB\n",
               static_cast<double>(total_of(m.peak_bytes)) / 1e6, static_cast<double>(m.arena_bytes) / 1e6);
}

void print_kernels(const StepMeasurement& m, std::FILE* out) {
    fmt::print(out, "\n{:26} {:>5} {:>8} {:>6} {:>7} {:>7} {:>7} {:>6}\n", "in a step of rank 0", "calls", "ms",
               "share", "GFLOP", "MB", "GFLOP/s", "GB/s");
    const auto share = [&](double seconds) { return 100 * seconds / m.traced_seconds; };
    for (const KernelCost& k : m.kernels)
        fmt::print(out, "{:26} {:>5.6g} {:>8.3f} {:>4.1f} % {:>7.3f} {:>7.1f} {:>7.1f} {:>6.2f}\n", k.name, k.launches,
                   k.seconds * 1e3, share(k.seconds), k.flops / 1e9, k.bytes / 1e6, rate(k.flops, k.seconds),
                   rate(k.bytes, k.seconds));
    const auto line = [&](std::string_view what, double seconds) {
        fmt::print(out, "{:26} {:>5} {:>8.3f} {:>4.1f} %\n", what, "", seconds * 1e3, share(seconds));
    };
    line("communication", m.communication_seconds);
    line("the rest, on the host", m.outside_seconds());
    line("the step, while traced", m.traced_seconds);
}

void print_products(const StepMeasurement& m, std::FILE* out) {
    fmt::print(out, "\n{:43} {:>5} {:>8} {:>6} {:>7} {:>6}\n", "matrix products of a step", "count", "us alone",
               "share", "GFLOP/s", "within");
    for (const ProductCost& p : m.products) {
        const double flops = kernels::flops_of(p.gemm);
        fmt::print(out, "{:43} {:>5.6g} {:>8} {:>4.1f} % {:>7.1f} {:>6}\n", product_text(p.gemm), p.count,
                   short_number(p.seconds * 1e6), 100 * p.count * p.seconds / m.product_seconds, rate(flops, p.seconds),
                   p.step_seconds > 0 ? fmt::format("{:.1f}", rate(flops, p.step_seconds)) : "-");
    }
    fmt::print(out, "within: GFLOP/s of these launches in the step; -: a part of attention\n");
}

Json kernels_json(const StepMeasurement& m) {
    Json rows = Json::array();
    for (const KernelCost& k : m.kernels)
        rows.push(Json{{"kernel", k.name},
                       {"launches", k.launches},
                       {"seconds", k.seconds},
                       {"share", k.seconds / m.traced_seconds},
                       {"flops", k.flops},
                       {"bytes", k.bytes},
                       {"gflops_per_s", rate(k.flops, k.seconds)},
                       {"gbytes_per_s", rate(k.bytes, k.seconds)}});
    return rows;
}

Json products_json(const StepMeasurement& m) {
    Json rows = Json::array();
    for (const ProductCost& p : m.products) {
        const double flops = kernels::flops_of(p.gemm);
        Json row = product_json(p.gemm);
        row.set("count", p.count).set("seconds", p.seconds).set("gflops_per_s", rate(flops, p.seconds));
        if (p.step_seconds > 0) row.set("gflops_per_s_in_step", rate(flops, p.step_seconds));
        rows.push(std::move(row));
    }
    return rows;
}

Json document(const BenchStepOptions& options, const Job& job, const StepMeasurement& m) {
    const Spread spread = spread_of(m);
    Json json{{"operation", "step"},        {"model", options.model},
              {"parameters", m.parameters}, {"dtype", name_of(job.train.dtype)},
              {"ranks", m.ranks},           {"threads", m.team},
              {"batch", job.train.batch},   {"context", job.model.context},
              {"tokens", m.tokens}};
    json.set("step_time_s", spread.mean).set("step_time_min_s", spread.min).set("step_time_max_s", spread.max);
    json.set("tokens_per_s", tokens_per_s(m)).set("products_s", m.product_seconds);
    json.set("roofline_ratio", m.roofline_ratio()).set("roofline_ratio_formula", kRatioFormula);
    json.set("peak_bytes", to_json(m.peak_bytes)).set("peak_total_bytes", total_of(m.peak_bytes));
    json.set("arena_extent_bytes", m.arena_bytes).set("traced_step_s", m.traced_seconds);
    json.set("exposed_comm_s", m.communication_seconds).set("host_s", m.outside_seconds());
    json.set("kernels", kernels_json(m)).set("products", products_json(m));
    return json;
}

int ranks_of(const BenchStepOptions& options) {
    if (!comm::under_mpirun()) return std::max(1, options.ranks);
    const int processes = comm::process_place().count;
    if (options.ranks != 0 && options.ranks != processes)
        throw UserError("--ranks: found {}, but mpirun has started {}, each of them a rank; accepted: {}",
                        options.ranks, counted(processes, "process", "processes"), processes);
    return processes;
}

}  // namespace

int bench_step(const BenchStepOptions& options, std::FILE* out) {
    const int ranks = ranks_of(options);
    const Job job = model_job({.model = options.model, .sets = options.sets, .flags = options.flags, .ranks = ranks});
    // Each product is timed by all ranks at once; stages have different ones.
    if (job.mesh.pp > 1)
        throw UserError(
            "mesh.pp: found {}; accepted by bench step: 1, since stages do not do the same products. A pipeline's "
            "times: "
            "cleave schedule --measure, or a trace (--set run.trace_step) of cleave train",
            job.mesh.pp);
    const int local = comm::under_mpirun() ? comm::process_place().local_count : ranks;
    const int team = team_size(local);
    check_memory(job, ranks, team);
    const StepMeasurement m =
        measure_step(job, {.ranks = ranks, .team = team, .warmup = options.warmup, .rounds = options.rounds});
    if (comm::process_place().rank != 0) return kExitOk;
    if (options.json) {
        fmt::print(out, "{}\n", document(options, job, m).dump(2));
        return kExitOk;
    }
    print_summary(job, m, out);
    print_kernels(m, out);
    print_products(m, out);
    return kExitOk;
}

}  // namespace cleave::cli
