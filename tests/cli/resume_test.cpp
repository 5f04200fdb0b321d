// A run that is resumed with another layout: the log names what differs where bits can, and only there. Whether they do
// is seen in the checkpoints: of the resumed run, and of one that was never interrupted.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "training.h"

namespace cleave::test {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Change {
    std::string ranks;
    Words sets;
    std::string said;  // of bits; empty: they are equal
};

class SlowResumeBitsTest : public SlowTrainingTest {
  protected:
    // Twelve steps whose learning rate does not depend on how many there are.
    Words steps(const std::string& name, const Change& layout, const char* count, const Words& more = {}) const {
        Words words = train(name, {}, layout.ranks);
        Words sets{"train.lr_schedule=constant", "train.warmup_steps=0", "train.batch=12", "train.clip=0.5"};
        sets.push_back(std::string("train.steps=") + count);
        sets.insert(sets.end(), layout.sets.begin(), layout.sets.end());
        for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
        words.insert(words.end(), more.begin(), more.end());
        return words;
    }
    bool same_tensors(const std::string& a, const std::string& b) const {
        const CheckpointFile first(checkpoint(a));
        const CheckpointFile second(checkpoint(b));
        bool same = first.path().filename() == second.path().filename() &&
                    first.tensors().size() == second.tensors().size() && first.tensors().size() > 20;
        for (std::size_t i = 0; same && i < first.tensors().size(); ++i) {
            const auto x = first.tensors()[i].bytes, y = second.tensors()[i].bytes;
            same = first.tensors()[i].name == second.tensors()[i].name &&
                   std::equal(x.begin(), x.end(), y.begin(), y.end());
        }
        return same;
    }
    void expect_told(const Change& from, const std::vector<Change>& changes) {
        ASSERT_EQ(run(steps("whole", from, "12")).exit_code, 0);
        ASSERT_EQ(run(steps("half", from, "6")).exit_code, 0);
        for (std::size_t i = 0; i < changes.size(); ++i) {
            const Change& change = changes[i];
            const std::string name = "resumed" + std::to_string(i);
            const std::string what = change.ranks + " ranks " + testing::PrintToString(change.sets);
            std::filesystem::copy(folder_ / "half", folder_ / name, std::filesystem::copy_options::recursive);
            const Result result = run(steps(name, change, "12", {"--resume"}));
            ASSERT_EQ(result.exit_code, 0) << what << result.err;
            EXPECT_THAT(result.err, HasSubstr("resumes after step 6")) << what;
            EXPECT_THAT(result.err, Not(HasSubstr("unbroken one: mesh"))) << what;
            EXPECT_EQ(same_tensors("whole", name), change.said.empty()) << what << "\n" << result.err;
            if (change.said.empty())
                EXPECT_THAT(result.err, Not(HasSubstr("bits may differ"))) << what;
            else
                EXPECT_THAT(result.err, HasSubstr("not interrupted: " + change.said + "\n")) << what;
        }
    }
};

TEST_F(SlowResumeBitsTest, WithoutAccumulationTheStageChangesNoBit) {
    expect_told({"4", {"zero.stage=1"}, ""},
                {{"4", {}, ""},
                 {"4", {"zero.stage=2"}, ""},
                 {"4", {"zero.stage=3", "mesh.dp=4"}, ""},
                 {"4", {"zero.stage=3", "zero.group=2"}, ""},
                 {"4", {"zero.stage=1", "train.microbatch=3", "train.bucket_bytes=1000"}, ""},
                 {"4", {"zero.stage=2", "train.microbatch=1", "zero.reduce=step"}, "sequences in a pass was 3, is 1"},
                 {"2", {"zero.stage=1", "train.microbatch=3"}, "dp was 4, is 2"},
                 {"2", {}, "dp was 4, is 2; sequences in a pass was 3, is 6"},
                 {"4", {"model.attention=materialised"}, "model.attention was \"fused\", is \"materialised\""}});
}

TEST_F(SlowResumeBitsTest, WithAccumulationTheStageIsOneOfTwo) {
    const std::string passes = "train.microbatch=1";
    expect_told(
        {"4", {"zero.stage=1", passes}, ""},
        {{"4", {passes}, ""},
         {"4", {"zero.stage=2", "zero.reduce=step", passes}, ""},
         {"4", {"zero.stage=3", passes}, "gradients summed over dp was once a step, is after each microbatch"}});
}

TEST_F(SlowResumeBitsTest, TensorParallelismCutsSumsElsewhere) {
    expect_told({"4", {"mesh.tp=2"}, ""},
                {{"4", {"mesh.tp=2", "tensor_parallel_chunks=3", "recompute=full"}, ""},
                 {"4", {"mesh.tp=2", "sequence_parallel=true"}, "sequence_parallel was false, is true"},
                 {"2", {"mesh.tp=1", "train.microbatch=6"}, "tp was 2, is 1"},
                 {"2", {"mesh.tp=2"}, "dp was 2, is 1; sequences in a pass was 6, is 12"}});
}

// In f64 the team does not matter.
Words staged(Words sets, bool tied) {
    for (const char* set : {"train.dtype=f64", "train.microbatch=1", "model.layers=4"}) sets.emplace_back(set);
    sets.push_back(fmt::format("model.tied_embeddings={}", tied));
    return sets;
}

TEST_F(SlowResumeBitsTest, StagesAloneChangeNothing) {
    expect_told({"1", staged({}, false), ""},
                {{"2", staged({"mesh.pp=2"}, false), ""},
                 {"2", staged({"mesh.pp=2", "pipeline.schedule=zbv"}, false), ""},
                 {"2", staged({"mesh.pp=2", "pipeline.schedule=dualpipe"}, false),
                  "gradients added was microbatch by microbatch, is in two halves of the microbatches"}});
}

TEST_F(SlowResumeBitsTest, StagesWithATiedTableChangeTheOrderOfAdding) {
    const std::string table = "microbatch by microbatch, the tied table's two uses ";
    expect_told({"4", staged({"mesh.pp=4"}, true), ""},
                {{"2", staged({"mesh.pp=2", "pipeline.schedule=zb-h1"}, true), ""},
                 {"1", staged({}, true), "gradients added was " + table + "apart, is " + table + "in turn"}});
}

// In f32 the team cuts products; the tree of sums has branches of two ranks, and none of three.
TEST_F(SlowResumeBitsTest, GroupsAreToldWhereTheyAreNoBranchOfTheTree) {
    expect_told({"6", {"zero.stage=2"}, ""}, {{"6", {"zero.stage=2", "zero.group=2"}, ""},
                                              {"6", {"zero.stage=2", "zero.group=3"}, "zero.group was 0, is 3"}});
}

}  // namespace
}  // namespace cleave::test
