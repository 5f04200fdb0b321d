// ZeRO's figures (docs/zero.md) from what the engine counts: bytes a step, bytes a parameter, the order of gathers and
// reductions, and that gathered parameters are freed; and that both engines run one program in every stage.
#include <gtest/gtest.h>

#include <set>

#include "engine/virtual_engine.h"
#include "record.h"
#include "train/dry_run.h"

namespace cleave {
namespace {

using test::expect_agreement;

// Whole blocks everywhere but in biases and gains.
ModelConfig model_of(std::int64_t width = 64, bool tied = true) {
    ModelConfig config;
    config.family = Family::llama;
    config.layers = 4;
    config.heads = 4;
    config.width = width;
    config.context = 32;
    config.vocabulary = 512;
    config.tied_embeddings = tied;
    return config;
}

Job job_of(int stage, DType dtype = DType::f32) {
    Job job;
    job.train.dtype = dtype;
    job.train.batch = 24;
    job.zero.stage = stage;
    return job;
}

// One rank's step on the virtual engine.
struct Step {
    std::vector<Event> events;
    std::int64_t parameter_bytes = 0;  // of all buckets, whole
    std::int64_t gradient_bytes = 0;
    std::vector<Bucket> buckets;
    BytesByKind resident{};
    BytesByKind peak_by_kind{};

    std::int64_t sent(std::string_view collective = "") const {
        std::int64_t bytes = 0;
        for (const Event& event : events)
            if (event.type == EventType::issue && is_bucket(event) && (collective.empty() || event.name == collective))
                bytes += event.bytes;
        return bytes;
    }
    static bool is_bucket(const Event& event) {
        return event.detail.starts_with("gradient") || event.detail.starts_with("parameter");
    }
};

Step step_of(const ModelConfig& config, const Job& job, int dp, int rank = 0, int accumulation = 1) {
    Mesh mesh({{"pp", 1}, {"dp", dp}, {"cp", 1}, {"tp", 1}});
    split_for_zero(mesh, job.zero.group);
    VirtualEngine engine(mesh, rank, comm::TransportKind::inproc, 1);
    Transformer model(engine, config, data_parallel_layouts(mesh), job.train.dtype, zero_options(job));
    TrainStep train(engine, model, job);
    Step step;
    for (int kind = 0; kind < kMemoryKinds; ++kind)
        step.resident[static_cast<std::size_t>(kind)] = engine.ledger().live(static_cast<MemoryKind>(kind));
    engine.reset_peaks();
    engine.trace().start();
    train.run(test::samples_of(config, job, dp, accumulation), 1, 1e-3);
    step.events = engine.trace().events();
    step.peak_by_kind = engine.ledger().peak_by_kind();
    step.buckets = model.store().buckets().all();
    for (const Bucket& bucket : step.buckets) {
        step.parameter_bytes += bucket.shape().elements() * size_of(job.train.dtype);
        step.gradient_bytes += bucket.shape().elements() * size_of(accumulator_of(job.train.dtype));
    }
    return step;
}

// Of all ranks: single ones may have a block more or less.
std::int64_t sent_by_all(const ModelConfig& config, const Job& job, int dp, int accumulation = 1) {
    std::int64_t bytes = 0;
    for (int rank = 0; rank < dp; ++rank) bytes += step_of(config, job, dp, rank, accumulation).sent();
    return bytes;
}

TEST(ZeroBytes, Stages1And2SendWhatStage0Sends) {
    for (int dp : {2, 3, 4, 8}) {
        const std::int64_t whole = step_of(model_of(), job_of(0), dp).gradient_bytes;
        EXPECT_EQ(sent_by_all(model_of(), job_of(0), dp), 2 * (dp - 1) * whole);
        for (int stage : {1, 2}) {
            const Step step = step_of(model_of(), job_of(stage), dp);
            EXPECT_EQ(sent_by_all(model_of(), job_of(stage), dp), 2 * (dp - 1) * step.gradient_bytes);
            EXPECT_NEAR(static_cast<double>(step.gradient_bytes), static_cast<double>(whole),
                        0.02 * static_cast<double>(whole))
                << "padding";
        }
    }
}

// Parts that are gathered twice and reduced once send 3 (n - 1) / n of their bytes: 1.5 times stage 0. The token table
// is gathered for the embedding and for the head where it is both, once where it is the embedding alone, whose backward
// needs no values; and the head stays whole from its forward to its backward.
TEST(ZeroBytes, Stage3SendsOneAndAHalfTimesAsMany) {
    for (bool tied : {true, false})
        for (int dp : {2, 4, 8})
            for (int accumulation : {1, 3}) {
                const Step step = step_of(model_of(256, tied), job_of(3), dp);
                std::int64_t expected = 0;
                for (const Bucket& bucket : step.buckets) {
                    const bool block = bucket.group > 0 && bucket.group < 5;
                    const bool table_of_both = bucket.second_group >= 0;
                    expected += (block || table_of_both ? 3 : 2) * bucket.shape().elements() * 4;
                }
                const std::int64_t sent = sent_by_all(model_of(256, tied), job_of(3), dp, accumulation);
                EXPECT_EQ(sent, accumulation * (dp - 1) * expected) << "dp " << dp;
                const std::int64_t plain = sent_by_all(model_of(256, tied), job_of(0), dp);
                const double ratio = static_cast<double>(sent) / static_cast<double>(accumulation * plain);
                EXPECT_LT(ratio, 1.51);
                EXPECT_GT(ratio, tied ? 1.49 : 1.2);
            }
}

TEST(ZeroBytes, ReducingOnceAStepSavesTheReductionsOfOtherMicrobatches) {
    Job job = job_of(3);
    const Step each = step_of(model_of(), job, 4, 0, 3);
    job.zero.reduce = ZeroReduce::step;
    const Step once = step_of(model_of(), job, 4, 0, 3);
    EXPECT_EQ(each.sent("reduce_scatter"), 3 * once.sent("reduce_scatter"));
    EXPECT_EQ(each.sent("all_gather"), once.sent("all_gather"));
}

TEST(ZeroBytes, GroupsAddTheSumOfShards) {
    Job job = job_of(2);
    job.zero.group = 4;
    const Step step = step_of(model_of(), job, 8);
    const std::int64_t shard = step.sent("reduce_scatter") / 3;  // 3/4 of the bytes, each rank a quarter
    EXPECT_NEAR(static_cast<double>(step.sent("all_reduce")), static_cast<double>(shard),
                0.02 * static_cast<double>(shard));
}

// "Bytes a parameter" of Rajbhandari et al. 2020, with the dtypes of this trainer: under bf16 2 + 4 + 4 + 8.
TEST(ZeroMemory, FollowsTheFormulaOfEachStage) {
    struct Formula {
        DType dtype;
        int stage;
        double fixed, shared;
    };
    const Formula formulas[] = {{DType::bf16, 0, 18, 0}, {DType::bf16, 1, 6, 12}, {DType::bf16, 2, 2, 16},
                                {DType::bf16, 3, 0, 18}, {DType::f32, 0, 16, 0},  {DType::f32, 1, 8, 8},
                                {DType::f32, 2, 4, 12},  {DType::f32, 3, 0, 16}};
    for (const Formula& formula : formulas)
        for (int dp : {2, 4, 8}) {
            const ModelConfig config = model_of(512);
            const Step step = step_of(config, job_of(formula.stage, formula.dtype), dp);
            double parameters = 0;
            for (const Bucket& bucket : step.buckets)
                for (const Bucket::Slot& slot : bucket.slots) parameters += static_cast<double>(slot.blocks) * 512;
            double resident = 0;
            for (const std::int64_t bytes : step.resident) resident += static_cast<double>(bytes);
            EXPECT_NEAR(resident / parameters, formula.fixed + formula.shared / dp, 0.2)
                << name_of(formula.dtype) << " stage " << formula.stage << " dp " << dp;
        }
}

// What a step holds beyond that: in stages 2 and 3 whole gradients of two reductions in flight, of the table of a tied
// model and of what backward works on; in stage 3 the parameters of two parts.
TEST(ZeroMemory, WholeBucketsAreFewAtATime) {
    const ModelConfig config = model_of(256, false);
    const std::size_t parameters = static_cast<std::size_t>(MemoryKind::parameters);
    const std::size_t gradients = static_cast<std::size_t>(MemoryKind::gradients);
    const Step step = step_of(config, job_of(3), 4);
    std::vector<std::int64_t> of_group(6);
    for (const Bucket& bucket : step.buckets)
        of_group[static_cast<std::size_t>(bucket.group)] += bucket.shape().elements() * 4;
    std::int64_t pair = 0;
    for (std::size_t g = 0; g + 1 < of_group.size(); ++g) pair = std::max(pair, of_group[g] + of_group[g + 1]);
    EXPECT_EQ(step.peak_by_kind[parameters], step.resident[parameters] + pair);
    EXPECT_LE(step.peak_by_kind[gradients],
              step.resident[gradients] + 3 * *std::max_element(of_group.begin(), of_group.end()));
    EXPECT_GE(step.peak_by_kind[gradients], step.resident[gradients] + of_group[1]);
}

std::ptrdiff_t first(const std::vector<Event>& events, EventType type, const std::string& detail,
                     std::ptrdiff_t from = 0) {
    for (auto i = from; i < static_cast<std::ptrdiff_t>(events.size()); ++i) {
        const Event& event = events[static_cast<std::size_t>(i)];
        if (event.type == type && event.detail.starts_with(detail)) return i;
    }
    return -1;
}

// Gather, use, free; the next part's gather is under way before this part's first kernel, and gradients are reduced
// while backward goes on.
TEST(ZeroOrder, GathersOnePartAheadAndFreesEach) {
    const ModelConfig config = model_of();
    const Step step = step_of(config, job_of(3), 4);
    std::map<std::string, int> gathers;
    std::map<std::string, int> reductions;
    for (const Event& event : step.events) {
        if (event.type != EventType::issue || !Step::is_bucket(event)) continue;
        const std::string bucket = event.detail.substr(0, event.detail.find(" #"));
        ++(event.name == "all_gather" ? gathers : reductions)[bucket];
    }
    EXPECT_EQ(gathers.size(), step.buckets.size());
    for (std::size_t i = 0; i < step.buckets.size(); ++i) {
        const Bucket& bucket = step.buckets[i];
        const bool twice = (bucket.group > 0 && bucket.group < 5) || bucket.second_group >= 0;
        EXPECT_EQ(gathers["parameter bucket " + std::to_string(i)], twice ? 2 : 1) << i;
        EXPECT_EQ(reductions["gradient bucket " + std::to_string(i)], 1) << i;
    }
    // The block's product with its MLP's first weight stands for its compute.
    const auto bucket_of = [&](int group) {
        for (std::size_t i = 0; i < step.buckets.size(); ++i)
            if (step.buckets[i].group == group && step.buckets[i].decays)
                return "parameter bucket " + std::to_string(i) + " #";
        return std::string();
    };
    std::vector<std::ptrdiff_t> waited;
    for (int group = 1; group <= 4; ++group) {
        const auto issue = first(step.events, EventType::issue, bucket_of(group));
        const auto wait = first(step.events, EventType::wait, bucket_of(group));
        ASSERT_GE(issue, 0);
        ASSERT_GT(wait, issue);
        const auto launches = std::count_if(step.events.begin() + issue, step.events.begin() + wait,
                                            [](const Event& event) { return event.type == EventType::launch; });
        EXPECT_GT(launches, 0) << "the gather of part " << group << " runs beside nothing";
        waited.push_back(wait);
    }
    EXPECT_TRUE(std::is_sorted(waited.begin(), waited.end()));
    // Backward: the other way round.
    const auto backward =
        std::find_if(step.events.begin(), step.events.end(),
                     [](const Event& event) { return event.type == EventType::mark && event.name == "backward 0"; }) -
        step.events.begin();
    std::vector<std::ptrdiff_t> again;
    for (int group = 4; group >= 1; --group)
        again.push_back(first(step.events, EventType::wait, bucket_of(group), backward));
    EXPECT_GE(again.front(), 0);
    EXPECT_TRUE(std::is_sorted(again.begin(), again.end()));
}

class ZeroAgreement : public testing::TestWithParam<std::tuple<int, DType, int, int, Recompute>> {};

TEST_P(ZeroAgreement, VirtualStepEqualsTheExecutedOne) {
    const auto [stage, dtype, dp, accumulation, recompute] = GetParam();
    ModelConfig config = model_of(32);
    config.family = dtype == DType::f32 ? Family::gpt2 : Family::llama;
    config.layers = 2;
    config.tied_embeddings = dp == 2;
    Job job = job_of(stage, dtype);
    job.train.bucket_bytes = 1 << 13;
    job.recompute = recompute;
    if (dp == 4) job.zero.group = accumulation == 3 ? 2 : 0;
    expect_agreement(config, job, dp, accumulation);
}

INSTANTIATE_TEST_SUITE_P(Steps, ZeroAgreement,
                         testing::Combine(testing::Values(1, 2, 3), testing::Values(DType::f32, DType::bf16),
                                          testing::Values(2, 4), testing::Values(1, 3),
                                          testing::Values(Recompute::none, Recompute::full)),
                         [](const auto& info) {
                             return "Stage" + std::to_string(std::get<0>(info.param)) +
                                    std::string(name_of(std::get<1>(info.param))) + "Dp" +
                                    std::to_string(std::get<2>(info.param)) + "Accumulation" +
                                    std::to_string(std::get<3>(info.param)) + "Recompute" +
                                    std::to_string(static_cast<int>(std::get<4>(info.param)));
                         });

}  // namespace
}  // namespace cleave
