// Attention as functions of the tape: every mask reaches forward and backward, packed and apart. The kernels themselves
// are judged in tests/kernels.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "engine/functions.h"
#include "ranks.h"

namespace cleave {
namespace {

constexpr std::int64_t kSamples = 2, kTokens = 5, kHeads = 2, kKeyHeads = 1, kChannels = 3;

double number(std::int64_t index, int salt) {
    return std::sin(static_cast<double>(index * 37 + salt * 101));
}

Tensor operand(Engine& engine, const Shape& shape, int salt) {
    return test::tensor_from(engine, shape, {}, [salt](std::int64_t index) { return number(index, salt); });
}

// A window, documents (which begin at 0 and 3, and at 0, 1 and 4), neither, both.
std::vector<AttentionMask> masks(Engine& engine) {
    const std::vector<std::int32_t> first{0, 0, 0, 3, 3, 0, 1, 1, 1, 4};
    const Tensor documents = engine.alloc("first", {kSamples, kTokens}, {}, DType::i32, MemoryKind::activations);
    engine.write(documents, std::as_bytes(std::span(first)));
    return {{}, {2, {}}, {0, documents}, {3, documents}};
}

using Function = std::function<Tensor(Tape&)>;

std::vector<double> forward(Engine& engine, const Function& function) {
    Tape tape(engine, false);
    const Tensor y = function(tape);
    return {test::data_of(y), test::data_of(y) + y.view().elements()};
}

double weighted(const std::vector<double>& y) {
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * number(static_cast<std::int64_t>(i), 9);
    return sum;
}

// The gradient that the tape gives `x` for the loss weighted(function) is its central difference.
void expect_gradient(Engine& engine, const Tensor& x, const Function& function) {
    Tape tape(engine);
    tape.watch(x);
    const Tensor y = function(tape);
    tape.backward_from(y, operand(engine, y.shape(), 9));
    const Tensor gradient = tape.gradient_of(x);
    for (std::int64_t i = 0; i < x.view().elements(); ++i) {
        double& element = test::data_of(x)[i];
        const double kept = element, step = 1e-5;
        element = kept + step;
        const double above = weighted(forward(engine, function));
        element = kept - step;
        const double below = weighted(forward(engine, function));
        element = kept;
        ASSERT_NEAR(test::data_of(gradient)[i], (above - below) / (2 * step), 1e-8) << x.name() << " at " << i;
    }
}

TEST(AttentionFunctions, GradientsUnderEveryMask) {
    test::on_ranks(Mesh({{"dp", 1}}), [](CpuEngine& engine) {
        const Tensor q = operand(engine, {kSamples, kTokens, kHeads, kChannels}, 1);
        const Tensor k = operand(engine, {kSamples, kTokens, kKeyHeads, kChannels}, 2);
        const Tensor v = operand(engine, {kSamples, kTokens, kKeyHeads, kChannels}, 3);
        const Tensor qkv = operand(engine, {kSamples, kTokens, 3, kHeads, kChannels}, 4);
        for (const AttentionMask& mask : masks(engine)) {
            for (AttentionKind kind : {AttentionKind::fused, AttentionKind::materialised}) {
                const AttentionOptions options{kind, {}};
                const Function apart = [&](Tape& tape) { return attention(tape, q, k, v, "attention", mask, options); };
                for (const Tensor& x : {q, k, v}) expect_gradient(engine, x, apart);
                expect_gradient(engine, qkv,
                                [&](Tape& tape) { return attention_packed(tape, qkv, "attention", mask, options); });
            }
        }
    });
}

// Also what dropout drops, where a row of probabilities is whole blocks of random words.
TEST(AttentionFunctions, MaterialisedIsFused) {
    test::on_ranks(Mesh({{"dp", 1}}), [](CpuEngine& engine) {
        const Tensor q = operand(engine, {2, 64, 2, 3, 4}, 1);
        const Tensor k = operand(engine, {2, 64, 2, 4}, 2), v = operand(engine, {2, 64, 2, 4}, 3);
        for (double probability : {0.0, 0.4})
            for (bool keep_mask : {false, true}) {
                auto run = [&](AttentionKind kind) {
                    Tape tape(engine, false);
                    tape.set_randomness({1, 2, 3});
                    const Tensor y =
                        attention(tape, q, k, v, "attention", {50, {}}, {kind, {probability, "here", keep_mask}});
                    return std::vector<double>(test::data_of(y), test::data_of(y) + y.view().elements());
                };
                const auto fused = run(AttentionKind::fused), materialised = run(AttentionKind::materialised);
                for (std::size_t i = 0; i < fused.size(); ++i) ASSERT_NEAR(fused[i], materialised[i], 1e-13);
            }
    });
}

// Dropped in training with the same choice in backward, a different one at another place, step or row; never otherwise.
TEST(AttentionFunctions, DropoutFollowsTheTapesRandomness) {
    test::on_ranks(Mesh({{"dp", 1}}), [](CpuEngine& engine) {
        const Tensor qkv = operand(engine, {kSamples, kTokens, 3, kHeads, kChannels}, 4);
        for (AttentionKind kind : {AttentionKind::fused, AttentionKind::materialised}) {
            const ProbabilityDropout half{0.5, "here", true};
            auto run = [&](const std::optional<Randomness>& random, const ProbabilityDropout& dropout) {
                Tape tape(engine);
                if (random) tape.set_randomness(*random);
                const Tensor y = attention_packed(tape, qkv, "attention", {}, {kind, dropout});
                return std::vector<double>(test::data_of(y), test::data_of(y) + y.view().elements());
            };
            const Randomness random{1, 2, 3};
            const auto plain = run(random, {});
            const auto dropped = run(random, half);
            EXPECT_EQ(run(std::nullopt, half), plain);
            EXPECT_EQ(run(random, half), dropped);
            EXPECT_NE(dropped, plain);
            EXPECT_NE(run(random, {0.5, "there"}), dropped);
            EXPECT_NE(run(Randomness{1, 3, 3}, half), dropped);
            EXPECT_NE(run(Randomness{1, 2, 4}, half), dropped);
            expect_gradient(engine, qkv, [&](Tape& tape) {
                tape.set_randomness(random);
                return attention_packed(tape, qkv, "attention", {}, {kind, half});
            });
        }
    });
}

// A query's output depends on the values of exactly the keys that its mask leaves.
TEST(AttentionFunctions, TheMaskDecidesWhatAQuerySees) {
    test::on_ranks(Mesh({{"dp", 1}}), [](CpuEngine& engine) {
        const Shape shape{kSamples, kTokens, 1, 1};
        const Tensor q = operand(engine, shape, 1), k = operand(engine, shape, 2), v = operand(engine, shape, 3);
        const auto all = masks(engine);
        const std::vector<std::vector<int>> begins{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
                                                   {0, 0, 1, 2, 3, 0, 0, 1, 2, 3},
                                                   {0, 0, 0, 3, 3, 0, 1, 1, 1, 4},
                                                   {0, 0, 0, 3, 3, 0, 1, 1, 1, 4}};
        for (std::size_t m = 0; m < all.size(); ++m) {
            const Function function = [&](Tape& tape) { return attention(tape, q, k, v, "attention", all[m]); };
            const auto before = forward(engine, function);
            for (std::int64_t key = 0; key < kSamples * kTokens; ++key) {
                const double kept = std::exchange(test::data_of(v)[key], 7.0);
                const auto after = forward(engine, function);
                test::data_of(v)[key] = kept;
                for (std::int64_t query = 0; query < kSamples * kTokens; ++query) {
                    const auto i = static_cast<std::size_t>(query);
                    const bool sees = query / kTokens == key / kTokens && key <= query && key % kTokens >= begins[m][i];
                    EXPECT_EQ(after[i] != before[i], sees) << "mask " << m << ", query " << query << ", key " << key;
                }
            }
        }
    });
}

}  // namespace
}  // namespace cleave
