// The layouts that are offered instead of a refused one: each is given back to the checks, as a user would type it.
#include "train/nearest_layouts.h"

#include <gmock/gmock.h>

#include <chrono>
#include <random>

#include "train/job_check.h"
#include "train/job_keys.h"

namespace cleave::offered {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<std::string> sets_of(const NearLayout& layout) {
    std::vector<std::string> sets;
    for (const LayoutSetting& setting : layout.settings) sets.push_back(as_set(setting));
    return sets;
}

Job with_settings(Job job, const NearLayout& layout) {
    for (const LayoutSetting& setting : layout.settings)
        for (const Key& key : keys_of(job)) {
            if (key.name != setting.key) continue;
            Value value;
            if (std::holds_alternative<bool*>(key.field))
                value = setting.value == "true";
            else if (std::holds_alternative<WordField>(key.field))
                value = setting.value.substr(1, setting.value.size() - 2);
            else
                value = std::int64_t{std::stoll(setting.value)};
            EXPECT_EQ(assign(key, value), std::nullopt) << setting.key << " = " << setting.value;
        }
    return job;
}

int ranks_of(const Job& job) {
    return job.mesh.pp * std::max(1, job.mesh.dp) * job.mesh.cp * job.mesh.tp;
}

// All offered layouts work, and no two are the same.
void expect_accepted(const Job& job, int ranks, RanksFrom from) {
    const auto layouts = nearest_layouts(job, ranks, from);
    ASSERT_THAT(layouts, SizeIs(testing::AllOf(testing::Ge(1U), testing::Le(3U))));
    std::set<std::vector<std::string>> all;
    for (const NearLayout& layout : layouts) {
        const auto sets = sets_of(layout);
        EXPECT_TRUE(all.insert(sets).second) << "offered twice";
        EXPECT_FALSE(sets.empty());
        const Job other = with_settings(job, layout);
        EXPECT_EQ(layout.ranks, from == RanksFrom::given ? ranks : ranks_of(other));
        EXPECT_THAT(check_layout(other, layout.ranks), IsEmpty()) << testing::PrintToString(sets);
    }
}

TEST(NearestLayouts, ThatFitTogether) {
    Job job;
    job.model.heads = 12;
    job.model.width = 144;
    job.mesh.tp = 5;
    job.mesh.dp = 3;
    job.zero.stage = 1;
    job.zero.group = 7;
    job.train.batch = 7;
    ASSERT_THAT(check_layout(job, 8), SizeIs(4));
    expect_accepted(job, 8, RanksFrom::given);
    const auto layouts = nearest_layouts(job, 8, RanksFrom::given);
    EXPECT_THAT(sets_of(layouts.front()), testing::Contains("--set mesh.tp=4"));
}

TEST(NearestLayouts, ChangeNoMoreThanNeedBe) {
    Job job;
    job.train.batch = 10;
    std::vector<std::vector<std::string>> all;
    for (const NearLayout& layout : nearest_layouts(job, 4, RanksFrom::given)) all.push_back(sets_of(layout));
    EXPECT_THAT(all, Each(SizeIs(1)));
    EXPECT_THAT(all, testing::IsSupersetOf({std::vector<std::string>{"--set train.batch=12"},
                                            std::vector<std::string>{"--set train.batch=8"}}));
    job.train.batch = 12;
    EXPECT_THAT(nearest_layouts(job, 4, RanksFrom::given), IsEmpty()) << "nothing is wrong";
}

// What has nothing to do with the layout stays wrong, and is no reason to offer none.
TEST(NearestLayouts, OtherProblemsStay) {
    Job job;
    job.train.min_lr = 1;
    EXPECT_THAT(nearest_layouts(job, 2, RanksFrom::given), IsEmpty());
    job.train.batch = 7;
    for (const NearLayout& layout : nearest_layouts(job, 2, RanksFrom::given))
        EXPECT_THAT(check_layout(with_settings(job, layout), 2), ElementsAre(HasSubstr("train.min_lr")));
}

// A key whose value was refused keeps its default, which must then be said.
TEST(NearestLayouts, SayWhatWasRefusedBefore) {
    Job job;
    job.train.batch = 7;
    for (const NearLayout& layout : nearest_layouts(job, 2, RanksFrom::given, {"mesh.tp", "train.lr"}))
        EXPECT_THAT(sets_of(layout), testing::AllOf(testing::Contains(testing::StartsWith("--set mesh.tp=")),
                                                    Each(testing::Not(HasSubstr("train.lr")))));
}

TEST(NearestLayouts, AreWrittenAsTheyAreTyped) {
    Job job;
    job.sequence_parallel_inputs = SequenceInputs::kept;
    const auto layouts = nearest_layouts(job, 1, RanksFrom::given);
    EXPECT_THAT(
        nearest_layouts_text(layouts, as_set, false),
        testing::StartsWith("layouts that work, the nearest first:\n    --set sequence_parallel_inputs=gathered"));
    EXPECT_THAT(nearest_layouts_text(layouts, as_set, true), HasSubstr("\n    --ranks 1 --set "));
    EXPECT_EQ(nearest_layouts_text({}, as_set, true), "");
}

// Seeded, so that what fails once fails again. Whatever is wrong with a layout, something is offered, soon.
TEST(SlowNearestLayouts, OfAnyRefusedLayoutAreAccepted) {
    std::mt19937 random(20);
    const auto any = [&](std::initializer_list<int> values) {
        return values.begin()[std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random)];
    };
    int refused = 0;
    double longest = 0;
    for (int n = 0; n < 400; ++n) {
        Job job;
        const bool llama = any({0, 1}) == 1;
        job.model.family = llama ? Family::llama : Family::gpt2;
        job.model.heads = any({1, 3, 4, 8, 12, 15, 32, 71});
        job.model.width = any({64, 96, 128, 144, 768, 4544});
        job.model.kv_heads = llama ? any({0, 1, 2, 3, 8}) : any({0, 0, 0, 4});
        job.model.head_width = any({0, 0, 0, 7, 64});
        job.mesh.tp = any({1, 1, 2, 3, 4, 5, 7, 8, 16, 64});
        job.mesh.dp = any({0, 0, 1, 2, 3, 4, 6, 7, 16});
        job.mesh.cp = any({1, 1, 1, 2});
        job.zero.stage = any({0, 1, 2, 3});
        job.zero.group = any({0, 0, 1, 2, 3, 4, 7});
        job.zero.reduce = any({0, 1}) == 0 ? ZeroReduce::microbatch : ZeroReduce::step;
        job.train.batch = any({1, 7, 8, 12, 13, 24, 61, 512});
        job.train.microbatch = any({0, 0, 1, 2, 3, 5, 16});
        job.train.ramp_batch = any({0, 0, 0, 1, 4, 5});
        job.train.ramp_steps = any({0, 0, 3});
        job.sequence_parallel = any({0, 1}) == 1;
        job.sequence_parallel_inputs = any({0, 1}) == 0 ? SequenceInputs::gathered : SequenceInputs::kept;
        job.tensor_parallel_chunks = any({1, 1, 2, 5});
        const RanksFrom from = any({0, 1}) == 0 ? RanksFrom::given : RanksFrom::mesh;
        const int ranks = from == RanksFrom::mesh ? ranks_of(job) : any({1, 2, 3, 4, 6, 8, 12, 16, 17, 64, 1000});
        if (check_layout(job, ranks).empty()) continue;
        ++refused;
        const auto begin = std::chrono::steady_clock::now();
        expect_accepted(job, ranks, from);
        longest = std::max(longest, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
        if (HasFailure()) FAIL() << "layout " << n << ": " << to_json(job).dump();
    }
    EXPECT_GT(refused, 300);
    EXPECT_LT(longest, 5) << "of one; a machine that is busy included";
}

}  // namespace
}  // namespace cleave::offered
