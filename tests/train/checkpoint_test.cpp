// Checkpoints of a model and its optimizer: what is saved comes back, whatever the layout; what does not fit or is not
// finite is refused. (The file format: checkpoint_file_test; whole runs: tests/cli.)
#include "train/checkpoint.h"

#include <gmock/gmock.h>

#include <cstring>
#include <limits>

#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "support/scratch.h"
#include "train/step.h"

namespace cleave {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Job job_of(DType dtype) {
    Job job;
    job.model.layers = 1;
    job.model.heads = 2;
    job.model.width = 8;
    job.model.context = 4;
    job.model.vocabulary = 7;
    job.train.dtype = dtype;
    job.train.batch = 6;
    return job;
}

std::vector<std::byte> bytes_of(const Tensor& tensor) {
    const auto* data = static_cast<const std::byte*>(tensor.view().data);
    return {data, data + tensor.view().bytes()};
}

std::vector<std::vector<std::byte>> state_of(Transformer& model, const TrainStep& step) {
    std::vector<std::vector<std::byte>> state;
    for (Parameter* p : model.parameters()) {
        state.push_back(bytes_of(p->master));
        state.push_back(bytes_of(p->value));
    }
    for (const auto& one : step.optimizer().states())
        for (const Tensor& flat : one.flats) state.push_back(bytes_of(flat));
    return state;
}

class CheckpointTest : public testing::Test {
  protected:
    std::filesystem::path path() const { return folder_ / "step.ckpt"; }
    static void on_ranks(int ranks, const Job& job,
                         const std::function<void(CpuEngine&, Transformer&, TrainStep&)>& body) {
        const Mesh mesh({{"pp", 1}, {"dp", ranks}, {"cp", 1}, {"tp", 1}});
        comm::LaunchOptions launch;
        launch.ranks = ranks;
        comm::run_ranks(launch, [&](comm::Communicator& world) {
            CpuEngine engine(mesh, world, 1);
            Transformer model(engine, job.model, data_parallel_layouts(mesh), job.train.dtype);
            model.initialize(static_cast<std::uint64_t>(1 + ranks));
            TrainStep step(engine, model, job);
            body(engine, model, step);
        });
    }
    // Two steps on two ranks, saved by rank 0; returns the state.
    std::vector<std::vector<std::byte>> save(const Job& job) const {
        std::vector<std::vector<std::byte>> saved;
        on_ranks(2, job, [&](CpuEngine& engine, Transformer& model, TrainStep& step) {
            Samples samples;
            for (int i = 0; i < 12; ++i) samples.tokens.push_back((i + engine.rank()) % 7);
            samples.labels = samples.tokens;
            for (int s = 1; s <= 2; ++s) step.run({samples}, s, 0.1);
            if (engine.rank() != 0) return;
            save_checkpoint(path(), model, step.optimizer(), Json::object());
            saved = state_of(model, step);
        });
        return saved;
    }
    ScratchFolder folder_;
};

class WholeState : public CheckpointTest, public testing::WithParamInterface<DType> {};

TEST_P(WholeState, ComesBackOnOtherRanks) {
    const Job job = job_of(GetParam());
    const auto saved = save(job);
    const CheckpointFile file(path());
    for (int ranks : {1, 3})
        on_ranks(ranks, job, [&](CpuEngine&, Transformer& model, TrainStep& step) {
            EXPECT_NE(state_of(model, step), saved);
            load_weights(file, model);
            load_optimizer(file, step.optimizer());
            EXPECT_EQ(state_of(model, step), saved);
        });
}

INSTANTIATE_TEST_SUITE_P(DTypes, WholeState, testing::Values(DType::f32, DType::bf16, DType::f64),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// Layouts that a run may leave and come to.
struct Place {
    int dp;
    int stage;
    int group = 0;
};

// Steps [first, last) on `place`; from the file if there is one, and into it.
std::vector<double> train_on(const Place& place, Job job, int first, int last, const std::filesystem::path& path) {
    job.zero.stage = place.stage;
    Mesh mesh({{"pp", 1}, {"dp", place.dp}, {"cp", 1}, {"tp", 1}});
    split_for_zero(mesh, place.group);
    comm::LaunchOptions launch;
    launch.ranks = place.dp;
    std::vector<double> losses;
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        CpuEngine engine(mesh, world, 1);
        Transformer model(engine, job.model, data_parallel_layouts(mesh), job.train.dtype, zero_options(job));
        model.initialize(1);
        TrainStep step(engine, model, job);
        if (first > 1) {
            const CheckpointFile file(path);
            load_weights(file, model);
            load_optimizer(file, step.optimizer());
        }
        for (int s = first; s < last; ++s) {
            Samples samples;
            const int rows = 12 / place.dp;
            for (int i = rows * world.rank() * 4; i < rows * (world.rank() + 1) * 4; ++i)
                samples.tokens.push_back((i * i + s) % 7);
            samples.labels = samples.tokens;
            const StepResult result = step.run({samples}, s, 0.05);
            if (world.rank() == 0) losses.push_back(result.loss);
        }
        world.barrier().wait();  // all have read before one writes
        save_checkpoint(path, model, step.optimizer(), Json::object());
    });
    return losses;
}

class ZeroResume : public CheckpointTest, public testing::WithParamInterface<DType> {};

// Without accumulation all stages have the same bits: so has a run that changes between them, to its last byte on disk.
TEST_P(ZeroResume, FromAnyStageToAnyOtherGivesTheFileOfAnUnbrokenRun) {
    Job job = job_of(GetParam());
    job.model.width = 32;
    job.model.vocabulary = 40;
    job.train.batch = 12;
    train_on({4, 0}, job, 1, 7, path());
    const std::string unbroken = read_all(path());
    for (const Place& from : {Place{4, 0}, Place{4, 1}, Place{4, 2}, Place{4, 3}, Place{4, 2, 2}})
        for (const Place& to : {Place{4, 0}, Place{4, 1}, Place{4, 3}, Place{4, 3, 2}}) {
            train_on(from, job, 1, 4, path());
            train_on(to, job, 4, 7, path());
            EXPECT_TRUE(read_all(path()) == unbroken) << "stage " << from.stage << " to " << to.stage;
        }
}

INSTANTIATE_TEST_SUITE_P(DTypes, ZeroResume, testing::Values(DType::f32, DType::bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_F(CheckpointTest, OfShardsGoesOnWithOtherNumbersOfRanks) {
    Job job = job_of(DType::f64);
    job.model.width = 32;
    job.train.batch = 12;
    const std::vector<double> unbroken = train_on({1, 0}, job, 1, 7, path());
    for (const auto& [from, to] :
         {std::pair{Place{2, 3}, Place{3, 1}}, {Place{3, 2}, Place{1, 0}}, {Place{1, 0}, Place{4, 3}}}) {
        train_on(from, job, 1, 4, path());
        const std::vector<double> rest = train_on(to, job, 4, 7, path());
        for (std::size_t i = 0; i < rest.size(); ++i) EXPECT_NEAR(rest[i], unbroken[3 + i], 1e-11);
    }
}

TEST_F(CheckpointTest, GoesByHuggingFaceNamesAndWholeShapes) {
    save(job_of(DType::f32));
    const CheckpointFile file(path());
    std::vector<std::string> names;
    for (const CheckpointTensor& tensor : file.tensors()) names.push_back(tensor.name);
    EXPECT_THAT(names, testing::IsSupersetOf({"transformer.wte.weight", "transformer.h.0.attn.c_attn.weight",
                                              "optimizer.exp_avg.transformer.h.0.attn.c_attn.weight",
                                              "optimizer.exp_avg_sq.transformer.ln_f.bias"}));
}

TEST_F(CheckpointTest, AModelOfAnotherShapeOrDtypeIsAUserError) {
    save(job_of(DType::f32));
    const CheckpointFile file(path());
    Job wider = job_of(DType::f32);
    wider.model.width = 16;
    Job deeper = job_of(DType::f32);
    deeper.model.layers = 2;
    for (const Job& job : {wider, deeper, job_of(DType::f64)})
        on_ranks(1, job, [&](CpuEngine&, Transformer& model, TrainStep&) {
            EXPECT_THAT(user_error([&] { load_weights(file, model); }),
                        AllOf(HasSubstr("step.ckpt"), HasSubstr("transformer.")));
        });
    Job sgd = job_of(DType::f32);
    sgd.train.optimizer = OptimizerKind::sgd;  // its checkpoint has no moments
    save(sgd);
    const CheckpointFile plain(path());
    on_ranks(1, job_of(DType::f32), [&](CpuEngine&, Transformer&, TrainStep& step) {
        EXPECT_THAT(user_error([&] { load_optimizer(plain, step.optimizer()); }), HasSubstr("exp_avg"));
    });
}

TEST_F(CheckpointTest, AValueThatIsNotFiniteIsNotSavedAndTheOlderFileStays) {
    const Job job = job_of(DType::f32);
    save(job);
    const std::string older = read_all(path());
    for (float wrong : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
        on_ranks(1, job, [&](CpuEngine&, Transformer& model, TrainStep& step) {
            Parameter* last = model.parameters().back();
            last->master.view().as<float>()[last->shape.elements() - 1] = wrong;
            try {
                save_checkpoint(path(), model, step.optimizer(), Json::object());
                ADD_FAILURE() << "saved";
            } catch (const RunError& error) {
                EXPECT_THAT(error.what(), AllOf(HasSubstr(last->name), HasSubstr("no checkpoint was written")));
            }
        });
    EXPECT_EQ(read_all(path()), older);
}

}  // namespace
}  // namespace cleave
