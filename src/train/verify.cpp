#include "train/verify.h"

#include <algorithm>
#include <cmath>

#include "base/words.h"
#include "engine/cpu_engine.h"
#include "train/schedule.h"

namespace cleave {

namespace {

constexpr double kGradientBound = 1e-12;  // f64
constexpr double kParameterBound = 1e-8;  // f64
constexpr double kTimesOwn = 4;           // f32 and bf16

// Half a unit in the last place: a one-rank run may be exact by luck.
double rounding_of(DType dtype) {
    return dtype == DType::bf16 ? 0x1p-9 : dtype == DType::f32 ? 0x1p-24 : 0x1p-53;
}

// Of the first `count`.
double largest_relative_difference(const std::vector<double>& reference, const std::vector<double>& other,
                                   std::size_t count) {
    double largest = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const double difference = std::abs(other[i] - reference[i]) / std::max(std::abs(reference[i]), 1e-300);
        largest = std::isfinite(difference) ? std::max(largest, difference) : INFINITY;
    }
    return largest;
}

ProofRun run(Job job, DType dtype, int ranks, const VerifyOptions& options) {
    job.train.dtype = dtype;
    if (options.progress)
        options.progress(
            fmt::format("{} on {} in {}", counted(options.steps, "step"), counted(ranks, "rank"), name_of(dtype)));
    return proof_run(job, ranks, team_size(ranks), options.steps);
}

void judge(VerifyReport& report, const std::string& what, bool equal) {
    if (!equal && report.first_difference.empty()) report.first_difference = what;
}

}  // namespace

Job on_one_rank(const Job& job) {
    Job one = job;
    one.mesh = {};
    one.pipeline = {};
    one.sequence_parallel = false;
    one.zero = {};
    return one;
}

VerifyReport compare(const Job& job, const ProofRun& reference, ProofRun one, ProofRun many) {
    VerifyReport report;
    report.job = job;
    report.one = std::move(one);
    report.many = std::move(many);
    const DType dtype = job.train.dtype;
    const bool exact = dtype == DType::f64;
    const auto allowed = [&](double own) {
        return exact ? kGradientBound : kTimesOwn * std::max(own, rounding_of(dtype));
    };
    double rates = 0;
    for (std::size_t step = 0; step < reference.losses.size(); ++step)
        rates += learning_rate(job.train, static_cast<std::int64_t>(step));
    const auto gradients = gradient_distances(reference.gradients, report.many.gradients);
    const auto own = gradient_distances(reference.gradients, report.one.gradients);
    const auto parameters = parameter_distances(reference.parameters, report.many.parameters, rates);
    if (exact) report.parameter_bound = kParameterBound;
    // Sums over all tokens and all elements: their rounding is bounded as a gradient's is.
    // In f32 and bf16 those of the first step: the later ones follow from parameters, which are not judged.
    const std::size_t judged = exact ? reference.losses.size() : 1;
    report.loss_bound = allowed(std::max(largest_relative_difference(reference.losses, report.one.losses, judged),
                                         largest_relative_difference(reference.norms, report.one.norms, judged)));
    report.loss_difference = largest_relative_difference(reference.losses, report.many.losses, judged);
    report.norm_difference = largest_relative_difference(reference.norms, report.many.norms, judged);
    judge(report, "the loss", report.loss_difference <= report.loss_bound);
    for (const std::string& name : reference.names) {
        TensorVerdict tensor{name, gradients.at(name), allowed(own.at(name)), own.at(name), parameters.at(name), false};
        tensor.equal = tensor.gradient <= tensor.gradient_bound &&
                       (!report.parameter_bound || tensor.parameter <= *report.parameter_bound);
        judge(report, name, tensor.equal);
        report.tensors.push_back(tensor);
    }
    judge(report, "the gradient norm", report.norm_difference <= report.loss_bound);
    return report;
}

VerifyReport verify(const Job& job, const VerifyOptions& options) {
    Job many = job;
    many.train.dtype = options.dtype;
    const Job one = on_one_rank(job);
    const ProofRun reference = run(one, DType::f64, 1, options);
    const ProofRun same_dtype = options.dtype == DType::f64 ? reference : run(one, options.dtype, 1, options);
    return compare(many, reference, same_dtype, run(many, options.dtype, options.ranks, options));
}

}  // namespace cleave
