#include "train/step_measure.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/clock.h"
#include "base/random.h"
#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "engine/product_timer.h"
#include "train/dry_run.h"
#include "train/schedule.h"
#include "train/step.h"
#include "train/step_trace.h"

namespace cleave {

namespace {

// A product is called often enough that the clock does not matter.
constexpr double kLeastProduct = 0.004;  // seconds
constexpr double kMostCalls = 1000;

Samples random_samples(const ModelConfig& model, std::int64_t rows, std::int64_t first_row) {
    const RandomStream random(1, "benchmark tokens");
    Samples samples;
    samples.first_row = first_row;
    const auto n = static_cast<std::uint64_t>(model.vocabulary);
    for (std::int64_t i = 0; i < rows * model.context; ++i) {
        const auto at = static_cast<std::uint64_t>(2 * (first_row * model.context + i));
        samples.tokens.push_back(static_cast<std::int32_t>(random.below(at, n)));
        samples.labels.push_back(static_cast<std::int32_t>(random.below(at + 1, n)));
    }
    return samples;
}

class Measurer {
  public:
    Measurer(const Job& job, const StepMeasureOptions& options, const Mesh& mesh, comm::Communicator& world)
        : job_(job),
          options_(options),
          world_(world),
          engine_(mesh, world, options.team),
          model_(model_of(job, engine_)),
          step_(engine_, model_, job) {
        model_.initialize(static_cast<std::uint64_t>(job.train.seed));
        const AxisId axis = mesh.axis("dp");
        const int dp = mesh.size(axis);
        const std::int64_t rows = microbatch_size(job, dp);
        const std::int64_t count = accumulation(job, dp, job.train.batch);
        for (std::int64_t i = 0; i < count; ++i)
            microbatches_.push_back(
                random_samples(job.model, rows, (mesh.coordinate(world.rank(), axis) * count + i) * rows));
    }

    StepMeasurement run() {
        for (int i = 0; i < options_.warmup; ++i) run_step();
        engine_.reset_peaks();
        trace_steps(1);
        measured_.peak_bytes = engine_.ledger().at_peak();
        measured_.arena_bytes = engine_.allocator().peak_extent();
        prepare_products();
        const std::int64_t steps = agreed(options_.round_seconds / measured_.traced_seconds);
        if (steps > 1) trace_steps(steps);
        std::vector<double> product_seconds;
        for (int round = 0; round < options_.rounds; ++round) {
            const double of_step = time_steps(steps);
            product_seconds.push_back(time_products());
            measured_.ratios.push_back(product_seconds.back() / of_step);
        }
        measured_.product_seconds = median(product_seconds);
        for (std::size_t i = 0; i < products_.size(); ++i) measured_.products[i].seconds = median(products_[i].times);
        measured_.ranks = world_.size();
        measured_.team = options_.team;
        measured_.parameters = model_.parameter_count();
        return std::move(measured_);
    }

  private:
    struct TimedProduct {
        std::int64_t calls = 1;  // in a round
        std::vector<double> times;
    };

    void run_step() {
        ++done_;
        measured_.tokens = step_.run(microbatches_, done_, learning_rate(job_.train, done_ - 1)).tokens;
    }

    // Rank 0's number of repetitions, rounded up, on all ranks.
    std::int64_t agreed(double times) {
        auto count = static_cast<std::int64_t>(std::ceil(std::clamp(times, 1.0, kMostCalls)));
        world_.broadcast(&count, 1, DType::i64, 0).wait();
        return count;
    }

    void trace_steps(std::int64_t count) {
        world_.barrier().wait();
        StepTrace sums;
        for (std::int64_t i = 0; i < count; ++i) {
            engine_.trace().start();
            run_step();
            const double end = engine_.trace().now();
            engine_.trace().stop();
            sums.add(engine_.trace().events(), end);
        }
        sums.mean_into(measured_);
    }

    void prepare_products() {
        std::vector<kernels::Gemm> gemms;
        for (const ProductCost& product : measured_.products) gemms.push_back(product.gemm);
        timer_.emplace(std::move(gemms));
        for (std::size_t i = 0; i < measured_.products.size(); ++i) {
            timer_->seconds(i, 1);
            products_.push_back({agreed(kLeastProduct / timer_->seconds(i, 1)), {}});
        }
    }

    double time_steps(std::int64_t count) {
        double sum = 0;
        for (std::int64_t i = 0; i < count; ++i) {
            world_.barrier().wait();
            const double begin = seconds();
            run_step();
            world_.barrier().wait();
            measured_.step_seconds.push_back(seconds() - begin);
            sum += measured_.step_seconds.back();
        }
        return sum / static_cast<double>(count);
    }

    // Of all products of a step, alone.
    double time_products() {
        double sum = 0;
        for (std::size_t i = 0; i < products_.size(); ++i) {
            world_.barrier().wait();
            products_[i].times.push_back(timer_->seconds(i, products_[i].calls));
            sum += measured_.products[i].count * products_[i].times.back();
        }
        return sum;
    }

    const Job& job_;
    const StepMeasureOptions& options_;
    comm::Communicator& world_;
    CpuEngine engine_;
    Transformer model_;
    TrainStep step_;
    std::vector<Samples> microbatches_;
    std::int64_t done_ = 0;
    std::optional<ProductTimer> timer_;
    std::vector<TimedProduct> products_;
    StepMeasurement measured_;
};

}  // namespace

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const std::size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double StepMeasurement::mean_step_seconds() const {
    return std::accumulate(step_seconds.begin(), step_seconds.end(), 0.0) / static_cast<double>(step_seconds.size());
}

double StepMeasurement::roofline_ratio() const {
    return median(ratios);
}

double StepMeasurement::outside_seconds() const {
    double seconds = traced_seconds - communication_seconds;
    for (const KernelCost& kernel : kernels) seconds -= kernel.seconds;
    return seconds;
}

StepMeasurement measure_step(const Job& job, const StepMeasureOptions& options) {
    const Mesh mesh = mesh_of(job, options.ranks);
    StepMeasurement result;
    comm::LaunchOptions launch;
    launch.ranks = options.ranks;
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        StepMeasurement own = Measurer(job, options, mesh, world).run();
        if (world.rank() == 0) result = std::move(own);
    });
    return result;
}

}  // namespace cleave
