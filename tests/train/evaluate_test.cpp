// Evaluation against a plain loop: one row at a time, a mean over every label of the validation part, in f64.
#include "train/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "support/scratch.h"
#include "train/sampler.h"

namespace cleave {
namespace {

Job evaluated_job() {
    Job job;
    job.model.layers = 1;
    job.model.heads = 2;
    job.model.width = 16;
    job.model.context = 8;
    job.train.dtype = DType::f64;
    job.data.tokenizer = TokenizerKind::bytes;
    job.model.vocabulary = 256;
    return job;
}

std::string text() {
    std::string text;
    for (int i = 0; i < 701; ++i) text += static_cast<char>('a' + i * i % 23);
    return text;
}

// The whole validation part on `ranks` ranks, `rows` rows a rank and batch.
double evaluated(const Dataset& dataset, const Job& job, int ranks, std::int64_t rows) {
    const Mesh mesh({{"pp", 1}, {"dp", ranks}, {"cp", 1}, {"tp", 1}});
    comm::LaunchOptions launch;
    launch.ranks = ranks;
    double loss = 0;
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        CpuEngine engine(mesh, world, 1);
        Transformer model(engine, job.model, data_parallel_layouts(mesh), job.train.dtype);
        model.initialize(3);
        const Sampler sampler(dataset, job.model.context, 1);
        const std::int64_t together = ranks * rows;
        Samples samples;
        const auto draw = [&](std::int64_t i) -> const Samples& {
            sampler.cover(Part::validation, {i * together + world.rank() * rows, rows}, samples);
            return samples;
        };
        const std::int64_t batches = (sampler.cover_rows(Part::validation) + together - 1) / together;
        const double own = evaluate(engine, model, batches, draw, sampler.cover_labels(Part::validation));
        if (world.rank() == 0) loss = own;
    });
    return loss;
}

// Label by label from the text itself: logits, log-sum-exp, mean.
double plain_mean(const Dataset& dataset, const Job& job) {
    const Mesh mesh({{"pp", 1}, {"dp", 1}, {"cp", 1}, {"tp", 1}});
    const auto tokens = dataset.tokens(Part::validation);
    const auto context = static_cast<std::size_t>(job.model.context);
    const auto mask = dataset.mask(Part::validation);
    double sum = 0;
    double labels = 0;
    comm::LaunchOptions launch;
    launch.ranks = 1;
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        CpuEngine engine(mesh, world, 1);
        Transformer model(engine, job.model, data_parallel_layouts(mesh), job.train.dtype);
        model.initialize(3);
        std::vector<double> logits(context * 256);
        for (std::size_t start = 0; start + 1 < tokens.size(); start += context) {
            std::vector<std::int32_t> window(context, 0);
            for (std::size_t i = 0; i < context && start + i < tokens.size(); ++i) window[i] = tokens[start + i];
            Tape tape(engine, false);
            engine.read_bytes(model.logits(tape, write_samples(engine, model, "tokens", window)),
                              std::as_writable_bytes(std::span(logits)));
            for (std::size_t i = 0; i < context && start + i + 1 < tokens.size(); ++i) {
                if (!mask.empty() && mask[start + i + 1] == std::byte{}) continue;
                ++labels;
                double total = 0;
                for (std::size_t v = 0; v < 256; ++v) total += std::exp(logits[i * 256 + v]);
                sum += std::log(total) - logits[i * 256 + static_cast<std::size_t>(tokens[start + i + 1])];
            }
        }
    });
    return sum / labels;
}

TEST(Evaluate, IsTheMeanOverEveryLabelWhateverTheLayoutAndBatch) {
    const Job job = evaluated_job();
    const Dataset dataset = Dataset::from_text(text(), job.data);
    ASSERT_NE((dataset.tokens(Part::validation).size() - 1) % 8, 0U) << "the last row should be cut short";
    const double expected = plain_mean(dataset, job);
    for (const auto& [ranks, rows] : {std::pair{1, 1}, {1, 4}, {2, 3}, {4, 1}, {4, 5}})
        EXPECT_NEAR(evaluated(dataset, job, ranks, rows), expected, 1e-12 * expected) << ranks << " x " << rows;
}

TEST(Evaluate, CountsMaskedLabelsNowhere) {
    const ScratchFolder folder;
    Job job = evaluated_job();
    job.data.mask = (folder / "mask").string();
    std::string mask;
    for (std::size_t i = 0; i < text().size(); ++i) mask += static_cast<char>(i % 7 < 3 ? 1 : 0);
    write_all(job.data.mask, mask);
    const Dataset masked = Dataset::from_text(text(), job.data);
    const double expected = plain_mean(masked, job);
    job.data.mask.clear();
    const Dataset whole = Dataset::from_text(text(), job.data);
    EXPECT_GT(std::abs(plain_mean(whole, job) - expected), 1e-4) << "the mask should matter";
    for (const auto& [ranks, rows] : {std::pair{1, 4}, {2, 3}, {4, 1}})
        EXPECT_NEAR(evaluated(masked, job, ranks, rows), expected, 1e-12 * expected) << ranks << " x " << rows;
}

TEST(Evaluate, WithoutALabelIsAUserError) {
    const ScratchFolder folder;
    Job job = evaluated_job();
    job.data.mask = (folder / "mask").string();
    write_all(job.data.mask, std::string(text().size(), '\0'));
    const Dataset masked = Dataset::from_text(text(), job.data);
    EXPECT_NE(user_error([&] { evaluated(masked, job, 2, 3); }).find("every label"), std::string::npos);
}

}  // namespace
}  // namespace cleave
