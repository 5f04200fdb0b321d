// The logits after a growing text, with the cache of keys and values against without, also where the text outgrows the
// model's positions.
#include "train/next_logits.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "parallel/data_parallel.h"
#include "support/variants.h"
#include "train/tokenizer.h"

namespace cleave {
namespace {

TEST(WindowBegin, LeavesOutTheOldestHalfAndNeverMoreThanNeeded) {
    for (std::int64_t positions = 1; positions <= 9; ++positions) {
        std::int64_t before = 0;
        for (std::int64_t tokens = 1; tokens < 50; ++tokens) {
            const std::int64_t begin = window_begin(tokens, positions);
            ASSERT_LE(tokens - begin, positions);
            ASSERT_GE(tokens - begin, std::min(tokens, positions / 2 + 1));
            // It moves only where the text would not fit any longer.
            const bool full = tokens - before > positions;
            EXPECT_EQ(begin, full ? before + (positions + 1) / 2 : before);
            before = begin;
        }
    }
}

ModelConfig config_of(test::Variant variant) {
    ModelConfig config;
    config.layers = 2;
    config.heads = 4;
    config.width = 32;
    config.context = 70;
    config.vocabulary = 23;
    config.initial_deviation = 0.3;
    make_variant(config, variant);
    return config;
}

void on_one_rank(const std::function<void(CpuEngine&)>& body) {
    const Mesh mesh({{"pp", 1}, {"dp", 1}, {"cp", 1}, {"tp", 1}});
    comm::run_ranks({}, [&](comm::Communicator& world) {
        CpuEngine engine(mesh, world, 1);
        body(engine);
    });
}

std::vector<Token> random_text(std::int64_t size) {
    const RandomStream random(4, "text");
    std::vector<Token> text;
    for (std::int64_t i = 0; i < size; ++i)
        text.push_back(static_cast<Token>(random.below(static_cast<std::uint64_t>(i), 23)));
    return text;
}

class NextLogitsTest : public testing::TestWithParam<test::Variant> {};

// f64: our own products sum each row in one order. f32 and bf16: oneDNN may sum rows of another count in another order;
// the bounds are some units in the last place of the largest logit.
TEST_P(NextLogitsTest, WithTheCacheAreThoseWithout) {
    for (const auto& [dtype, bound] : {std::pair{DType::f64, 1e-12}, {DType::f32, 1e-5}, {DType::bf16, 4e-2}})
        on_one_rank([&, dtype = dtype, bound = bound](CpuEngine& engine) {
            Transformer model(engine, config_of(GetParam()), data_parallel_layouts(engine.mesh()), dtype);
            model.initialize(3);
            const std::int64_t positions = model.config().most_positions();
            for (const std::int64_t prompt : {std::int64_t{17}, positions + 5}) {
                const auto text = random_text(prompt + positions + 20);
                NextLogits cached(engine, model, std::ssize(text), true), plain(engine, model, std::ssize(text), false);
                for (std::size_t size = static_cast<std::size_t>(prompt); size < text.size(); ++size) {
                    const auto seen = std::span(text).first(size);
                    const auto a = cached.after(seen, 23), b = plain.after(seen, 23);
                    double largest = 0, difference = 0;
                    for (std::size_t v = 0; v < 23; ++v) {
                        largest = std::max(largest, std::abs(b[v]));
                        difference = std::max(difference, std::abs(a[v] - b[v]));
                    }
                    ASSERT_LT(difference, bound * largest) << name_of(dtype) << " after " << size << " tokens";
                }
            }
        });
}

// Decoding needs no more memory with every token: what lives is the cache, and the arena's extent stays.
TEST_P(NextLogitsTest, MemoryDoesNotGrow) {
    on_one_rank([&](CpuEngine& engine) {
        Transformer model(engine, config_of(GetParam()), data_parallel_layouts(engine.mesh()), DType::f32);
        model.initialize(3);
        const std::int64_t positions = model.config().most_positions();
        const auto text = random_text(4 * positions);
        NextLogits next(engine, model, std::ssize(text), true);
        const auto extent_after = [&](std::int64_t from, std::int64_t to) {
            for (std::int64_t size = from; size < to; ++size)
                next.after(std::span(text).first(static_cast<std::size_t>(size)), 23);
            return engine.allocator().peak_extent();
        };
        const std::int64_t first = extent_after(1, 2 * positions);
        const std::int64_t live = engine.ledger().live();
        EXPECT_EQ(extent_after(2 * positions, 4 * positions), first);
        EXPECT_EQ(engine.ledger().live(), live);
    });
}

INSTANTIATE_TEST_SUITE_P(Models, NextLogitsTest, testing::ValuesIn(test::kVariants),
                         [](const auto& info) { return test::name_of(info.param); });

}  // namespace
}  // namespace cleave
