// Documents packed in one row against each of them alone, and a window against a row that holds nothing else, in f64.
#include <gtest/gtest.h>

#include "finite_differences.h"
#include "tiny_model.h"

namespace cleave {
namespace {

constexpr double kScale = 1.0 / 7;
constexpr std::int64_t kContext = 12;

ModelConfig config_of(test::Variant variant, std::int64_t window = 0) {
    ModelConfig config = test::tiny(Family::gpt2);
    config.context = kContext;
    make_variant(config, variant);
    config.window = window;
    return config;
}

struct Document {
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> labels;
};

// Rows of documents of these lengths; some labels are masked.
const std::vector<std::vector<std::size_t>> kLengths = {{5, 7}, {3, 1, 8}, {12}};

std::vector<std::vector<Document>> documents(const ModelConfig& config) {
    const RandomStream random(4, "documents");
    const auto words = static_cast<std::uint64_t>(config.vocabulary);
    std::uint64_t drawn = 0;
    std::vector<std::vector<Document>> rows;
    for (const auto& lengths : kLengths) {
        rows.emplace_back();
        for (std::size_t length : lengths) {
            Document document;
            for (std::size_t i = 0; i < length; ++i) {
                document.tokens.push_back(static_cast<std::int32_t>(random.below(drawn++, words)));
                document.labels.push_back(i % 4 == 3 ? static_cast<std::int32_t>(kIgnoredLabel)
                                                     : static_cast<std::int32_t>(random.below(drawn++, words)));
            }
            rows.back().push_back(std::move(document));
        }
    }
    return rows;
}

class Fixture {
  public:
    Fixture(CpuEngine& engine, const ModelConfig& config)
        : engine_(engine),
          model_(engine, config, data_parallel_layouts(engine.mesh()), DType::f64),
          gradients_(model_.store()) {
        model_.initialize(1);
        test::perturb(model_);
        gradients_.zero();
    }

    Transformer& model() { return model_; }
    Tensor ids(const std::vector<std::int32_t>& values, std::int64_t length) {
        const Shape shape{static_cast<std::int64_t>(values.size()) / length, length};
        Tensor tensor = engine_.alloc("ids", shape, model_.layouts().tokens, DType::i32, MemoryKind::activations);
        engine_.write(tensor, std::as_bytes(std::span(values)));
        return tensor;
    }

    // All rows as they are packed.
    struct Packed {
        Tensor tokens, labels;
        SequenceContext context;
    };
    Packed pack(const std::vector<std::vector<Document>>& rows) {
        std::vector<std::int32_t> tokens, labels, first_visible;
        for (const auto& row : rows) {
            std::int32_t first = 0;
            for (const Document& document : row) {
                tokens.insert(tokens.end(), document.tokens.begin(), document.tokens.end());
                labels.insert(labels.end(), document.labels.begin(), document.labels.end());
                first_visible.insert(first_visible.end(), document.tokens.size(), first);
                first += static_cast<std::int32_t>(document.tokens.size());
            }
        }
        Packed packed{ids(tokens, kContext), ids(labels, kContext), {}};
        packed.context.first_visible = ids(first_visible, kContext);
        return packed;
    }

    std::vector<double> logits(const Tensor& tokens, const SequenceContext& context = {}) {
        Tape tape(engine_, false);
        const Tensor result = model_.logits(tape, tokens, context);
        const auto values = test::elements(result);
        return {values.begin(), values.end()};
    }
    // Adds to the gradients; the loss.
    double backward(const Tensor& tokens, const Tensor& labels, const SequenceContext& context, Recompute recompute) {
        Tape tape(engine_, true, recompute);
        const Tensor loss = model_.loss(tape, tokens, labels, kScale, context);
        const double value = engine_.read(loss, 0);
        tape.backward(loss);
        return value;
    }
    std::vector<std::vector<double>> take_gradients() {
        std::vector<std::vector<double>> all;
        for (Parameter* p : model_.parameters()) {
            const auto values = test::elements(p->gradient);
            all.emplace_back(values.begin(), values.end());
        }
        gradients_.zero();
        return all;
    }

  private:
    CpuEngine& engine_;
    Transformer model_;
    GradientBuckets gradients_;
};

class PackedDocuments : public testing::TestWithParam<std::tuple<test::Variant, std::int64_t>> {};

TEST_P(PackedDocuments, HaveTheLogitsAndGradientsOfEachAlone) {
    const auto [variant, window] = GetParam();
    const ModelConfig config = config_of(variant, window);
    test::on_one_rank([&](CpuEngine& engine) {
        Fixture fixture(engine, config);
        const auto rows = documents(config);
        const auto packed = fixture.pack(rows);
        const std::vector<double> together = fixture.logits(packed.tokens, packed.context);
        std::size_t at = 0;
        double loss = 0;
        for (const auto& row : rows) {
            SequenceContext where;  // of the document alone
            for (const Document& document : row) {
                const auto length = static_cast<std::int64_t>(document.tokens.size());
                const Tensor tokens = fixture.ids(document.tokens, length);
                const auto from_zero = fixture.logits(tokens);
                const auto alone = fixture.logits(tokens, where);
                for (std::size_t i = 0; i < alone.size(); ++i, ++at) {
                    EXPECT_NEAR(together[at], alone[i], 1e-12);
                    EXPECT_NEAR(together[at], from_zero[i], 1e-7);
                }
                loss += fixture.backward(tokens, fixture.ids(document.labels, length), where, Recompute::none);
                // Rotary positions are relative but for the rounding of their angles to f32: exactly equal is what
                // stands in the same place.
                if (config.family == Family::llama) where.first_position += length;
            }
        }
        EXPECT_EQ(at, together.size());
        const auto expected = fixture.take_gradients();
        std::vector<std::vector<double>> first;
        for (Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
            EXPECT_NEAR(fixture.backward(packed.tokens, packed.labels, packed.context, recompute), loss, 1e-12);
            const auto found = fixture.take_gradients();
            if (first.empty()) first = found;
            EXPECT_EQ(found, first) << "recomputation changes bits";
            for (std::size_t p = 0; p < expected.size(); ++p)
                for (std::size_t i = 0; i < expected[p].size(); ++i)
                    ASSERT_NEAR(found[p][i], expected[p][i], 1e-12 * std::max(1.0, std::abs(expected[p][i])))
                        << fixture.model().parameters()[p]->name << " at " << i;
        }
        // The judge can tell: without the documents' borders all is different.
        const auto mixed = fixture.logits(packed.tokens);
        double difference = 0;
        for (std::size_t i = 0; i < mixed.size(); ++i)
            difference = std::max(difference, std::abs(mixed[i] - together[i]));
        EXPECT_GT(difference, 1e-2);
    });
}

TEST_P(PackedDocuments, GradientsEqualFiniteDifferences) {
    const auto [variant, window] = GetParam();
    const ModelConfig config = config_of(variant, window);
    test::on_one_rank([&](CpuEngine& engine) {
        Fixture fixture(engine, config);
        const auto packed = fixture.pack(documents(config));
        fixture.backward(packed.tokens, packed.labels, packed.context, Recompute::none);
        test::expect_finite_differences(fixture.model().parameters(), [&] {
            Tape tape(engine, false);
            return engine.read(fixture.model().loss(tape, packed.tokens, packed.labels, kScale, packed.context), 0);
        });
    });
}

INSTANTIATE_TEST_SUITE_P(Models, PackedDocuments,
                         testing::Combine(testing::Values(test::Variant::gpt2, test::Variant::llama,
                                                          test::Variant::qwen3),
                                          testing::Values(0, 4)),
                         [](const auto& info) {
                             return test::name_of(std::get<0>(info.param)) + "Window" +
                                    std::to_string(std::get<1>(info.param));
                         });

// With one block a token's logits follow from the window's tokens alone.
TEST(Window, SeesItsLastTokensAlone) {
    for (test::Variant variant : {test::Variant::gpt2, test::Variant::llama})
        for (std::int64_t window : {1, 3, 12, 20}) {
            ModelConfig config = config_of(variant, window);
            config.layers = 1;
            test::on_one_rank([&](CpuEngine& engine) {
                Fixture fixture(engine, config);
                const Document document = documents(config)[2][0];
                const std::vector<double> all = fixture.logits(fixture.ids(document.tokens, kContext));
                for (std::int64_t t = 0; t < kContext; ++t) {
                    const std::int64_t begin = std::max<std::int64_t>(0, t + 1 - window);
                    const std::vector<std::int32_t> seen(document.tokens.begin() + begin,
                                                         document.tokens.begin() + t + 1);
                    SequenceContext context;
                    context.first_position = begin;  // for learned positions
                    const auto alone = fixture.logits(fixture.ids(seen, t + 1 - begin), context);
                    for (std::int64_t v = 0; v < config.vocabulary; ++v)
                        EXPECT_NEAR(all[static_cast<std::size_t>(t * config.vocabulary + v)],
                                    alone[static_cast<std::size_t>((t - begin) * config.vocabulary + v)], 1e-12);
                }
            });
        }
}

// A token at a time, as text is generated.
TEST(Window, HoldsForTokensBehindACache) {
    for (test::Variant variant : {test::Variant::gpt2, test::Variant::llama}) {
        const ModelConfig config = config_of(variant, 3);
        test::on_one_rank([&](CpuEngine& engine) {
            Fixture fixture(engine, config);
            const Document document = documents(config)[2][0];
            const std::vector<double> all = fixture.logits(fixture.ids(document.tokens, kContext));
            KeyValueCache cache(engine, kContext);
            std::size_t at = 0;
            for (std::int64_t t = 0; t < kContext; ++t) {
                SequenceContext context;
                context.first_position = t;
                context.cache = &cache;
                const std::vector<std::int32_t> token{document.tokens[static_cast<std::size_t>(t)]};
                for (double logit : fixture.logits(fixture.ids(token, 1), context))
                    EXPECT_NEAR(logit, all[at++], 1e-12);
            }
        });
    }
}

}  // namespace
}  // namespace cleave
