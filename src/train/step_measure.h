// What a training step costs, and how close it is to its bound.
//
// The step is the real one (train/step.h) on random tokens. Its kernels, and the matrix products that they consist of,
// are read from its own trace: there is no second model of a step here.
//
//   roofline ratio = time of the step's matrix products alone / time of the step
//
// The products run alone on operands of their own: the same shapes, transposes, dtypes, ranks and threads, in turns
// with the step, so that both meet the same machine. Each distinct product is timed and multiplied by the number of
// times that the step has it. Attention counts as kernels/attention_products.cpp says: 6 products of the visible part;
// what is recomputed (the scores in attention's backward, whole blocks where the job asks for it) is not counted.
// Thread rule: as comm::run_ranks, which it calls.
#pragma once

#include <string>
#include <vector>

#include "cluster/ledger.h"
#include "kernels/gemm.h"
#include "train/job.h"

namespace cleave {

struct StepMeasureOptions {
    int ranks = 1;  // under mpirun: as many as it started
    int team = 1;   // threads of a rank
    int warmup = 1;
    int rounds = 5;              // each: steps, then the products
    double round_seconds = 0.2;  // as many steps as take so long, at least one
};

// Of one step of rank 0, mean over the traced steps.
struct KernelCost {
    std::string name;
    double launches = 0;
    double seconds = 0;
    double flops = 0;
    double bytes = 0;
};

struct ProductCost {
    kernels::Gemm gemm;
    double count = 0;         // in a step
    double seconds = 0;       // of one, alone: the median of the rounds
    double step_seconds = 0;  // of one in the step, where a kernel is this product and nothing else; else 0
};

struct StepMeasurement {
    int ranks = 0;
    int team = 0;
    std::int64_t tokens = 0;  // of the global batch, in one step
    std::int64_t parameters = 0;
    std::vector<double> step_seconds;  // every timed step
    std::vector<double> ratios;        // of every round
    double product_seconds = 0;        // the products of a step alone, median of the rounds
    std::vector<KernelCost> kernels;   // the most expensive first
    std::vector<ProductCost> products;
    double traced_seconds = 0;         // a step while it is traced: kernels, communication and the rest
    double communication_seconds = 0;  // exposed_communication (engine/trace.h)
    BytesByKind peak_bytes{};          // the ledger at its peak
    std::int64_t arena_bytes = 0;      // the extent of rank 0's arena

    double mean_step_seconds() const;
    double roofline_ratio() const;   // the median of the rounds'
    double outside_seconds() const;  // neither kernels nor communication: the host
};

// job.model.vocabulary is set and the job is checked (job_check.h).
StepMeasurement measure_step(const Job& job, const StepMeasureOptions& options);

double median(std::vector<double> values);  // of at least one

}  // namespace cleave
