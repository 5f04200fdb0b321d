// Models cut by tensor, sequence and vocabulary parallelism against one rank, in f64: the loss and every parameter's
// gradient.
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "parallel/sequence_parallel.h"
#include "parallel/tensor_parallel.h"
#include "tiny_model.h"

namespace cleave {
namespace {

using test::Variant;

struct Setting {
    Variant variant = Variant::gpt2;
    bool tied = true;
    double dropout = 0;
    bool documents = false;
    double z_loss = 0;
    Recompute recompute = Recompute::none;
};

struct Cut {
    int dp = 1;
    int tp = 1;
    bool sequence = false;
    bool gather_again = false;
    int chunks = 1;
};

struct Result {
    double loss = 0;
    std::map<std::string, std::vector<double>> gradients;
};

// Extents that the ranks do not divide: 9 tokens, 13 words, 26 hidden units.
ModelConfig config_of(const Setting& setting) {
    ModelConfig config;
    config.layers = 2;
    config.heads = 8;
    config.width = 16;
    config.mlp_width = 26;
    config.context = 9;
    make_variant(config, setting.variant);
    config.vocabulary = 13;
    config.initial_deviation = 0.3;
    config.tied_embeddings = setting.tied;
    config.dropout = config.attention_dropout = setting.dropout;
    return config;
}

// The tensor on every rank, whatever its layout.
Tensor whole(Engine& engine, Tensor tensor) {
    std::vector<Layout::Entry> entries(tensor.layout().begin(), tensor.layout().end());
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry)
        tensor = engine.transition(tensor, tensor.layout().with(entry->axis, I));
    return tensor;
}

constexpr std::int64_t kRows = 4;

// This rank's part of [kRows, context] numbers.
template <class F>
Tensor rows_tensor(Engine& engine, const ModelConfig& config, const Layout& layout, F&& number) {
    Tensor tensor = engine.alloc("ids", {kRows, config.context}, layout, DType::i32, MemoryKind::activations);
    auto* to = tensor.view().as<std::int32_t>();
    const std::int64_t first = tensor.view().offset[0] * config.context;
    for (std::int64_t i = 0; i < tensor.view().elements(); ++i) to[i] = number(first + i);
    return tensor;
}

Result run(const Setting& setting, const Cut& cut) {
    const ModelConfig config = config_of(setting);
    Mesh mesh({{"pp", 1}, {"dp", cut.dp}, {"cp", 1}, {"tp", cut.tp}});
    add_head_axes(mesh, config.key_value_heads(), config.query_group());
    ModelLayouts layouts = data_parallel_layouts(mesh);
    add_tensor_parallelism(layouts, mesh);
    if (cut.sequence) add_sequence_parallelism(layouts, cut.gather_again);
    layouts.chunks = cut.chunks;

    Result result;
    std::mutex mutex;
    comm::LaunchOptions launch;
    launch.ranks = mesh.world_size();
    launch.timeout = std::chrono::seconds(60);
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        CpuEngine engine(mesh, world, 1);
        Transformer model(engine, config, layouts, DType::f64);
        model.initialize(1);
        for (Parameter* p : model.parameters()) {
            // Gains and biases away from 1 and 0.
            const Tensor noise = engine.alloc("noise", p->shape, p->layout, DType::f64, MemoryKind::activations);
            engine.launch(kernels::FillNormal{9, p->name, 0.1}, {noise}, {noise});
            engine.launch(kernels::Accumulate{}, {noise}, {p->value});
            p->gradient = engine.alloc(p->name, p->shape, p->layout.dual(), DType::f64, MemoryKind::gradients);
            engine.launch(kernels::Fill{0.0}, {p->gradient}, {p->gradient});
        }
        const RandomStream random(5, "tokens");
        const auto word = [&](std::int64_t i) {
            return static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(i), 13));
        };
        const Tensor tokens = rows_tensor(engine, config, layouts.tokens, [&](std::int64_t i) { return word(2 * i); });
        const Tensor labels = rows_tensor(engine, config, layouts.tokens, [&](std::int64_t i) {
            return i % 5 == 3 || (i > 27 && i % 2 == 0) ? static_cast<std::int32_t>(kIgnoredLabel) : word(2 * i + 1);
        });
        SequenceContext context;
        if (setting.documents)
            context.first_visible = rows_tensor(engine, config, layouts.tokens, [&](std::int64_t i) {
                return static_cast<std::int32_t>(i % config.context / 4 * 4);
            });
        Tape tape(engine, true, setting.recompute);
        tape.set_randomness({3, 7, tokens.view().offset[0]});
        const Loss loss = model.losses(tape, tokens, labels, 1.0 / 20, setting.z_loss, context);
        tape.backward(loss.objective);
        const double total = engine.read(whole(engine, loss.objective), 0);
        for (Parameter* p : model.parameters()) {
            const Tensor gradient = whole(engine, p->gradient);
            const std::lock_guard lock(mutex);
            if (world.rank() == 0) {
                const auto values = test::elements(gradient);
                result.gradients[p->name].assign(values.begin(), values.end());
            }
        }
        if (world.rank() == 0) result.loss = total;
    });
    return result;
}

double norm(const std::vector<double>& values) {
    double sum = 0;
    for (double v : values) sum += v * v;
    return std::sqrt(sum);
}

void expect_equal(const Result& reference, const Result& other, const std::string& what) {
    EXPECT_NEAR(other.loss, reference.loss, 1e-12) << what;
    double total = 0;
    double elements = 0;
    for (const auto& [name, values] : reference.gradients) {
        total += norm(values) * norm(values);
        elements += static_cast<double>(values.size());
    }
    for (const auto& [name, values] : reference.gradients) {
        std::vector<double> difference = other.gradients.at(name);
        ASSERT_EQ(difference.size(), values.size()) << name;
        for (std::size_t i = 0; i < values.size(); ++i) difference[i] -= values[i];
        const double floor = std::sqrt(total * static_cast<double>(values.size()) / elements);
        EXPECT_LT(norm(difference) / std::max(norm(values), floor), 1e-12) << name << ", " << what;
    }
}

std::string text_of(const Setting& setting, const Cut& cut) {
    return fmt::format("{} dp {} tp {}{}{}{}, {} chunks", test::name_of(setting.variant), cut.dp, cut.tp,
                       cut.sequence ? " sequence" : "", cut.gather_again ? " gathered again" : "",
                       setting.tied ? " tied" : "", cut.chunks);
}

void expect_cuts_equal_one_rank(const Setting& setting, const std::vector<Cut>& cuts) {
    const Result reference = run(setting, {});
    for (const Cut& cut : cuts) expect_equal(reference, run(setting, cut), text_of(setting, cut));
}

const std::vector<Cut> kCuts{{1, 2, false, false}, {1, 4, false, false}, {1, 8, false, false}, {2, 2, false, false},
                             {1, 2, true, false},  {1, 4, true, true},   {1, 8, true, false},  {2, 4, true, true}};

class CutModel : public testing::TestWithParam<Variant> {};

TEST_P(CutModel, EqualsOneRank) {
    for (bool tied : {true, false}) expect_cuts_equal_one_rank({.variant = GetParam(), .tied = tied}, kCuts);
}

TEST_P(CutModel, EqualsOneRankWithDropoutDocumentsAndZLoss) {
    expect_cuts_equal_one_rank({.variant = GetParam(), .dropout = 0.3, .documents = true, .z_loss = 0.1},
                               {{1, 2, false, false}, {2, 4, true, true}});
}

TEST_P(CutModel, EqualsOneRankUnderRecomputation) {
    for (Recompute recompute : {Recompute::selective, Recompute::full})
        expect_cuts_equal_one_rank({.variant = GetParam(), .recompute = recompute},
                                   {{1, 2, false, false}, {1, 4, true, false}, {1, 4, true, true}});
}

// Communication in chunks changes no bit of the loss or of any gradient.
void expect_chunks_change_nothing(const Setting& setting, std::vector<Cut> cuts, const std::vector<int>& chunks) {
    for (Cut& cut : cuts) {
        cut.chunks = 1;
        const Result whole = run(setting, cut);
        for (int count : chunks) {
            cut.chunks = count;
            const Result cut_up = run(setting, cut);
            EXPECT_EQ(cut_up.loss, whole.loss) << text_of(setting, cut);
            for (const auto& [name, values] : whole.gradients)
                EXPECT_EQ(cut_up.gradients.at(name), values) << name << ", " << text_of(setting, cut);
        }
    }
}

TEST_P(CutModel, ChunksChangeNoBit) {
    const std::vector<Cut> cuts{{1, 2, false, false}, {1, 2, true, false}, {1, 4, true, true}, {2, 4, true, true}};
    expect_chunks_change_nothing({.variant = GetParam()}, cuts, {2, 3, 9});  // of 4 and of 2 sequences
    for (Recompute recompute : {Recompute::selective, Recompute::full})
        expect_chunks_change_nothing({.variant = GetParam(), .dropout = 0.3, .documents = true, .recompute = recompute},
                                     cuts, {3});
}

INSTANTIATE_TEST_SUITE_P(Models, CutModel, testing::ValuesIn(test::kVariants),
                         [](const auto& info) { return test::name_of(info.param); });

}  // namespace
}  // namespace cleave
