// Each family against Hugging Face Transformers and PyTorch, whose numbers tests/golden/make_models.py has written: the
// import, logits, loss, every gradient, and every parameter after five steps of AdamW with clipping, in f32.
//
// Two f32 computations of one formula differ by rounding. Gradients are compared by the measure of
// train/layout_distance.h (a truly zero gradient has no relative error of its own), everything else by the L2 norm of
// the difference over that of the reference; the bound is 1e-5.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "parallel/data_parallel.h"
#include "train/hugging_face.h"
#include "train/layout_distance.h"
#include "train/step.h"

namespace cleave {
namespace {

constexpr double kBound = 1e-5;

std::filesystem::path models() {
    return std::filesystem::path(CLEAVE_SOURCE) / "tests" / "golden" / "models";
}

std::vector<double> doubles(const SafetensorsTensor& tensor) {
    std::vector<double> values(static_cast<std::size_t>(tensor.shape.elements()));
    convert_values(tensor.type, tensor.bytes, DType::f64, values.data());
    return values;
}

std::vector<double> doubles(const Tensor& tensor) {
    const auto* values = tensor.view().as<float>();
    return {values, values + tensor.view().elements()};
}

double squared(const std::vector<double>& values) {
    double sum = 0;
    for (const double v : values) sum += v * v;
    return sum;
}

double relative(const std::vector<double>& reference, std::vector<double> other) {
    EXPECT_EQ(reference.size(), other.size());
    for (std::size_t i = 0; i < reference.size(); ++i) other[i] -= reference[i];
    return std::sqrt(squared(other) / squared(reference));
}

// What PyTorch computed.
class Golden {
  public:
    explicit Golden(const std::filesystem::path& file) : file_(file) {}

    const SafetensorsTensor& at(const std::string& name) const {
        for (const SafetensorsTensor& tensor : file_.tensors())
            if (tensor.name == name) return tensor;
        throw UserError("no {} in {}", name, file_.path().string());
    }
    std::vector<double> values(const std::string& name) const { return doubles(at(name)); }
    ParameterValues all(const std::string& start) const {
        ParameterValues values;
        for (const SafetensorsTensor& tensor : file_.tensors())
            if (tensor.name.starts_with(start)) values[tensor.name.substr(start.size())] = doubles(tensor);
        return values;
    }
    // Tokens and labels of a step, counted from 0; they are [steps, batch, time].
    Samples batch(std::int64_t step) const {
        return {.tokens = slice("tokens", step), .labels = slice("labels", step)};
    }
    std::int64_t steps() const { return at("tokens").shape[0]; }
    std::int64_t context() const { return at("tokens").shape[2]; }

  private:
    std::vector<std::int32_t> slice(const std::string& name, std::int64_t step) const {
        const SafetensorsTensor& all = at(name);
        const auto count = static_cast<std::size_t>(all.shape.product(1, 3));
        std::vector<std::int32_t> values(count);
        std::memcpy(values.data(), all.bytes.data() + static_cast<std::size_t>(step) * count * 4, count * 4);
        return values;
    }
    SafetensorsFile file_;
};

Job job_of(const ModelConfig& model) {
    Job job;
    job.model = model;
    job.train.beta1 = 0.9;
    job.train.beta2 = 0.99;
    job.train.epsilon = 1e-4;
    job.train.weight_decay = 0.1;
    job.train.clip = 0.5;
    return job;
}
constexpr double kRate = 1e-3;

class Models : public testing::TestWithParam<const char*> {
  protected:
    std::filesystem::path folder() const { return models() / GetParam(); }
    Golden golden() const { return Golden(folder() / "golden.safetensors"); }

    // The model, its weights imported, on one rank.
    void with_model(const std::function<void(CpuEngine&, Transformer&)>& body) const {
        const HuggingFaceFolder source(folder());
        ModelConfig config = source.config().model;
        config.context = golden().context();
        const Mesh mesh({{"pp", 1}, {"dp", 1}, {"cp", 1}, {"tp", 1}});
        comm::run_ranks({}, [&](comm::Communicator& world) {
            CpuEngine engine(mesh, world, 1);
            Transformer model(engine, config, data_parallel_layouts(mesh), DType::f32);
            source.load(model);
            body(engine, model);
        });
    }
    static std::vector<double> logits(CpuEngine& engine, Transformer& model, const Golden& golden) {
        Tape tape(engine, false);
        const Samples batch = golden.batch(0);
        return doubles(model.logits(tape, write_samples(engine, model, "tokens", batch.tokens)));
    }
};

TEST_P(Models, LogitsLossAndEveryGradientAreThoseOfTransformers) {
    const Golden golden = this->golden();
    with_model([&](CpuEngine& engine, Transformer& model) {
        EXPECT_LT(relative(golden.values("logits"), logits(engine, model, golden)), kBound);
        TrainStep step(engine, model, job_of(model.config()));
        const double loss = step.accumulate_gradients({golden.batch(0)});
        EXPECT_LT(relative(golden.values("loss"), {loss}), kBound);
        ParameterValues gradients;
        for (Parameter* p : model.parameters()) gradients[p->name] = doubles(step.gradients().reduced(*p));
        const ParameterValues reference = golden.all("gradient.");
        EXPECT_EQ(gradients.size(), reference.size());
        for (const auto& [name, difference] : gradient_distances(reference, gradients))
            EXPECT_LT(difference, kBound) << name;
    });
}

TEST_P(Models, FiveStepsOfAdamWAreThoseOfPyTorch) {
    const Golden golden = this->golden();
    with_model([&](CpuEngine& engine, Transformer& model) {
        const Job job = job_of(model.config());
        TrainStep train(engine, model, job);
        const std::vector<double> norms = golden.values("norms");
        for (std::int64_t step = 0; step < golden.steps(); ++step) {
            const StepResult result = train.run({golden.batch(step)}, step + 1, kRate);
            EXPECT_NEAR(result.gradient_norm / norms[static_cast<std::size_t>(step)], 1, kBound) << "step " << step;
        }
        const ParameterValues reference = golden.all("parameter.");
        EXPECT_EQ(reference.size(), model.parameters().size());
        for (Parameter* p : model.parameters())
            EXPECT_LT(relative(reference.at(p->name), doubles(p->master)), kBound) << p->name;
    });
}

// What a wrong import looks like: pairs of neighbours, as other code lays rotary channels out, instead of halves.
TEST_P(Models, AnotherOrderOfRotaryChannelsIsSeen) {
    const Golden golden = this->golden();
    with_model([&](CpuEngine& engine, Transformer& model) {
        if (model.config().family == Family::gpt2) return;  // has no rotary positions
        for (Parameter* p : model.parameters()) {
            if (!p->name.ends_with("q_proj.weight") && !p->name.ends_with("k_proj.weight")) continue;
            const int last = p->shape.rank() - 1;  // [heads.. channels width]
            const std::int64_t rows = p->shape.product(0, last), half = p->shape[last - 1] / 2, width = p->shape[last];
            float* values = p->master.view().as<float>();
            const std::vector<float> old(values, values + rows * width);
            for (std::int64_t r = 0; r < rows; ++r) {
                const std::int64_t i = r % (2 * half);
                const std::int64_t from = r - i + i / 2 + i % 2 * half;
                std::copy_n(old.begin() + from * width, width, values + r * width);
            }
        }
        EXPECT_GT(relative(golden.values("logits"), logits(engine, model, golden)), 1e-2);
    });
}

INSTANTIATE_TEST_SUITE_P(Golden, Models, testing::Values("gpt2", "llama2", "llama3", "smollm2", "qwen2", "qwen3"),
                         [](const auto& info) { return std::string(info.param); });

// The frequencies of released models, to the last bit but for Transformers' own rounding of the power.
TEST(Golden, RotaryFrequenciesAreThoseOfTransformers) {
    const auto llama3 = [](double factor) {
        kernels::RotaryFrequencies frequencies(5e5);
        frequencies.scaling = kernels::RotaryScaling::llama3;
        frequencies.factor = factor;
        return frequencies;
    };
    const Golden golden(models() / "rotary.safetensors");
    const std::pair<const char*, kernels::RotaryFrequencies> released[] = {
        {"llama2", 1e4},          {"llama3", 5e5}, {"llama3_1", llama3(8)},
        {"llama3_2", llama3(32)}, {"qwen", 1e6},   {"smollm2", 1e5}};
    int differ = 0;
    for (const auto& [name, frequencies] : released) {
        const std::vector<double> expected = golden.values(name);
        for (std::size_t i = 0; i < expected.size(); ++i) {
            const float own =
                frequencies.at(static_cast<std::int64_t>(i), 2 * static_cast<std::int64_t>(expected.size()));
            if (static_cast<double>(own) == expected[i]) continue;
            ++differ;
            EXPECT_NEAR(static_cast<double>(own), expected[i], 0x1p-23 * expected[i]) << name << " " << i;
        }
    }
    EXPECT_LE(differ, 4);
}

// Values of every floating type as PyTorch converts them, infinities and what is no number among them.
TEST(Golden, EveryTypeReadsAsInPyTorch) {
    const Golden golden(models() / "types.safetensors");
    for (const std::string type : {"F64", "F32", "F16", "BF16"}) {
        const SafetensorsTensor& stored = golden.at(type);
        const SafetensorsTensor& expected = golden.at(type + ".f32");
        const auto count = static_cast<std::size_t>(stored.shape.elements());
        std::vector<float> values(count), wanted(count);
        convert_values(stored.type, stored.bytes, DType::f32, values.data());
        std::memcpy(wanted.data(), expected.bytes.data(), expected.bytes.size());
        for (std::size_t i = 0; i < count; ++i) {
            if (std::isnan(wanted[i]))  // which of the many that are no numbers does not matter
                EXPECT_TRUE(std::isnan(values[i])) << type;
            else
                EXPECT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(wanted[i])) << type;
        }
    }
}

}  // namespace
}  // namespace cleave
