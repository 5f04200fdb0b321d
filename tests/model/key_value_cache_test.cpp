// With the cache of keys and values equal to without: the logits of a sequence that is passed in pieces are those of
// one pass, for every variant of the model, however it is cut.
#include "model/key_value_cache.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tiny_model.h"

namespace cleave {
namespace {

// The logits of tokens [begin, begin + count) of each row of `batch`.
Tensor pass(Engine& engine, Transformer& model, const Tensor& batch, std::int64_t begin, std::int64_t count,
            KeyValueCache* cache) {
    const std::int64_t rows = batch.shape()[0], steps = batch.shape()[1];
    std::vector<std::int32_t> part;
    for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t t = begin; t < begin + count; ++t)
            part.push_back(batch.view().as<std::int32_t>()[r * steps + t]);
    const Tensor tokens = engine.alloc("tokens", {rows, count}, batch.layout(), DType::i32, MemoryKind::activations);
    engine.write(tokens, std::as_bytes(std::span(part)));
    Tape tape(engine, false);
    return model.logits(tape, tokens, {begin, cache});
}

double at(const Tensor& tensor, std::int64_t i) {
    return dispatch_float(tensor.dtype(), [&]<class T>(T) {
        return static_cast<double>(static_cast<accumulator_t<T>>(tensor.view().as<T>()[i]));
    });
}

// The largest difference of a logit of `pieces` passes from those of one, in units of the largest logit.
double largest_difference(Engine& engine, Transformer& model, const Tensor& batch,
                          const std::vector<std::int64_t>& pieces) {
    const std::int64_t rows = batch.shape()[0], steps = batch.shape()[1], v = model.config().vocabulary;
    const Tensor whole = pass(engine, model, batch, 0, steps, nullptr);
    KeyValueCache cache(engine, steps + 1);
    double difference = 0, largest = 0;
    std::int64_t begin = 0;
    for (const std::int64_t count : pieces) {
        const Tensor part = pass(engine, model, batch, begin, count, &cache);
        for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t i = 0; i < count * v; ++i) {
                const double expected = at(whole, (r * steps + begin) * v + i);
                difference = std::max(difference, std::abs(at(part, r * count * v + i) - expected));
                largest = std::max(largest, std::abs(expected));
            }
        begin += count;
    }
    EXPECT_EQ(begin, steps);
    return difference / largest;
}

class Cache : public testing::TestWithParam<test::Variant> {};

TEST_P(Cache, APassInPiecesGivesTheLogitsOfOnePass) {
    // f32 and bf16: products of other shapes may be summed in another order; a few units in the last place of the type.
    for (const auto& [dtype, bound] : {std::pair{DType::f64, 1e-13}, {DType::f32, 4e-6}, {DType::bf16, 3e-2}})
        test::on_one_rank([&, dtype = dtype, bound = bound](CpuEngine& engine) {
            const ModelConfig config = test::tiny(GetParam());
            Transformer model(engine, config, data_parallel_layouts(engine.mesh()), dtype);
            model.initialize(1);
            const Tensor batch = test::random_batch(engine, config, 3).tokens;
            for (const std::vector<std::int64_t>& pieces :
                 {std::vector<std::int64_t>{6}, {1, 1, 1, 1, 1, 1}, {4, 1, 1}, {2, 3, 1}})
                EXPECT_LT(largest_difference(engine, model, batch, pieces), bound)
                    << name_of(dtype) << ", " << pieces.size() << " pieces";
        });
}

// A cut text begins anew in the same cache, and a sequence may go back: rows behind are not seen.
TEST_P(Cache, WhatStoodInItBeforeDoesNotMatter) {
    test::on_one_rank([&](CpuEngine& engine) {
        const ModelConfig config = test::tiny(GetParam());
        Transformer model(engine, config, data_parallel_layouts(engine.mesh()), DType::f64);
        model.initialize(1);
        const Tensor batch = test::random_batch(engine, config, 1).tokens;
        KeyValueCache used(engine, 6);
        pass(engine, model, batch, 0, 6, &used);
        pass(engine, model, batch, 0, 2, &used);
        const Tensor again = pass(engine, model, batch, 2, 1, &used);
        const Tensor whole = pass(engine, model, batch, 0, 6, nullptr);
        for (std::int64_t i = 0; i < config.vocabulary; ++i)
            EXPECT_NEAR(at(again, i), at(whole, 2 * config.vocabulary + i), 1e-13);
    });
}

TEST_P(Cache, LogitsOfOnePositionAreThoseOfTheWholePass) {
    test::on_one_rank([&](CpuEngine& engine) {
        const ModelConfig config = test::tiny(GetParam());
        Transformer model(engine, config, data_parallel_layouts(engine.mesh()), DType::f64);
        model.initialize(1);
        const Tensor batch = test::random_batch(engine, config, 3).tokens;
        Tape tape(engine, false);
        const Tensor whole = model.logits(tape, batch);
        for (std::int64_t position : {0, 3, 5}) {
            const Tensor one = model.logits_at(tape, batch, position);
            ASSERT_EQ(one.shape(), (Shape{3, 1, config.vocabulary}));
            for (std::int64_t r = 0; r < 3; ++r)
                for (std::int64_t i = 0; i < config.vocabulary; ++i)
                    EXPECT_NEAR(at(one, r * config.vocabulary + i),
                                at(whole, (r * config.context + position) * config.vocabulary + i), 1e-13);
        }
    });
}

INSTANTIATE_TEST_SUITE_P(Models, Cache, testing::ValuesIn(test::kVariants),
                         [](const auto& info) { return test::name_of(info.param); });

TEST(CacheMemory, IsOnePairOfTensorsABlock) {
    test::on_one_rank([&](CpuEngine& engine) {
        const ModelConfig config = test::tiny(test::Variant::llama);  // 2 of 4 heads have keys
        Transformer model(engine, config, data_parallel_layouts(engine.mesh()), DType::bf16);
        model.initialize(1);
        const Tensor batch = test::random_batch(engine, config, 1).tokens;
        const std::int64_t before = engine.ledger().live();
        {
            KeyValueCache cache(engine, 50);
            pass(engine, model, batch, 0, 4, &cache);
            pass(engine, model, batch, 4, 1, &cache);
            const std::int64_t expected = config.layers * 2 * 50 * 2 * (config.width / config.heads) * 2;
            EXPECT_EQ(engine.ledger().live() - before, expected);
        }
        EXPECT_EQ(engine.ledger().live(), before);
    });
}

}  // namespace
}  // namespace cleave
