// What tests of whole runs share: the command line of a small run, its folder, its bits.
#pragma once

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "program.h"
#include "train/checkpoint_file.h"
#include "train/metrics.h"

namespace cleave::test {

using Words = std::vector<std::string>;

class SlowTrainingTest : public testing::Test {
  protected:
    std::string folder(const std::string& name) const { return (folder_ / name).string(); }

    // The command line of a run of 60 steps with a checkpoint every 20.
    Words train(const std::string& name, const Words& more, const std::string& ranks = "2") const {
        Words words{CLEAVE_PROGRAM, "train", "runs/tiny.toml"};
        if (!ranks.empty()) words.insert(words.end(), {"--ranks", ranks});
        for (const char* set : {"train.steps=60", "train.warmup_steps=5", "train.evaluate_every=15",
                                "train.evaluate_batches=1", "train.checkpoint_every=20", "sample.tokens=3"})
            words.insert(words.end(), {"--set", set});
        words.insert(words.end(), {"--set", "run.folder=" + folder(name)});
        words.insert(words.end(), more.begin(), more.end());
        return words;
    }
    Result run(const Words& words, const Program::Limits& limits = Program::Limits()) const {
        return Program(folder_.path(), words, limits).wait();
    }
    std::int64_t lines(const std::string& name) const {
        const std::string text = read_all(folder_ / name / "metrics.jsonl");
        return std::count(text.begin(), text.end(), '\n');
    }
    std::filesystem::path checkpoint(const std::string& name) const {
        return latest_checkpoint(folder_ / name / "checkpoints").value();
    }
    // Every value but times, in the order of the lines.
    std::string losses(const std::string& name) const {
        std::string text;
        for (const Json& line : read_metrics(folder_ / name / "metrics.jsonl"))
            for (const auto& [key, value] : *line.members())
                if (key != "tokens_per_s" && key != "step_time_s" && key != "exposed_comm_s")
                    text += key + "=" + value.dump() + " ";
        return text;
    }
    void expect_same_bits(const std::string& a, const std::string& b) const {
        const CheckpointFile first(checkpoint(a));
        const CheckpointFile second(checkpoint(b));
        EXPECT_EQ(first.path().filename(), second.path().filename());
        ASSERT_EQ(first.tensors().size(), second.tensors().size());
        ASSERT_GT(first.tensors().size(), 20U);
        for (std::size_t i = 0; i < first.tensors().size(); ++i) {
            const CheckpointTensor& x = first.tensors()[i];
            const CheckpointTensor& y = second.tensors()[i];
            EXPECT_EQ(x.name, y.name);
            EXPECT_TRUE(std::equal(x.bytes.begin(), x.bytes.end(), y.bytes.begin(), y.bytes.end())) << x.name;
        }
        EXPECT_EQ(losses(a), losses(b));
    }
    // Runs until `name` has this many lines of metrics, then sends the signal.
    Result interrupt(const std::string& name, const Words& words, std::int64_t at, int signal) const {
        Program program(folder_.path(), words, Program::Limits());
        EXPECT_TRUE(program.wait_until([&] { return lines(name) >= at; }));
        program.signal(signal);
        return program.wait();
    }

    ScratchFolder folder_;
};

}  // namespace cleave::test
