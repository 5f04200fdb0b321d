// Whole runs on layouts that cut layers and states, and the commands that prove, explain and count them.
#include <gmock/gmock.h>

#include <iterator>
#include <sstream>

#include "training.h"

namespace cleave::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class SlowLayoutsTest : public SlowTrainingTest {
  protected:
    static Words cut(const Words& more = {}) {
        Words words;
        for (const char* set : {"mesh.tp=2", "sequence_parallel=true", "zero.stage=3"})
            words.insert(words.end(), {"--set", set});
        words.insert(words.end(), more.begin(), more.end());
        return words;
    }
    Result cleave(const Words& words) {
        Words all{CLEAVE_PROGRAM};
        all.insert(all.end(), words.begin(), words.end());
        return run(all);
    }
    static Json json_of(const Result& result) {
        EXPECT_EQ(result.exit_code, 0) << result.err;
        return Json::parse(result.out, "standard output");
    }
};

TEST_F(SlowLayoutsTest, AnInterruptedRunEndsWithTheBitsOfAnUnbrokenOne) {
    ASSERT_EQ(run(train("whole", cut(), "4")).exit_code, 0);
    ASSERT_EQ(interrupt("stopped", train("stopped", cut(), "4"), 25, SIGINT).exit_code, 130);
    const Result resumed = run(train("stopped", cut({"--resume"}), "4"));
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_THAT(resumed.err, Not(HasSubstr("will not equal an unbroken one")));
    expect_same_bits("whole", "stopped");
}

TEST_F(SlowLayoutsTest, ACheckpointGoesOnOnAnyOtherLayout) {
    ASSERT_EQ(run(train("run", cut({"--set", "train.steps=20"}), "4")).exit_code, 0);
    const Result resumed = run(train("run", {"--resume", "--set", "train.steps=30"}, "1"));
    EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_THAT(resumed.err, AllOf(HasSubstr("resumes after step 20"), HasSubstr("tp was 2, is 1")));
}

TEST_F(SlowLayoutsTest, IllegalLayoutsAreRefusedAllAtOnce) {
    const Result result = run(train("run",
                                    {"--set", "mesh.tp=3", "--set", "zero.group=7", "--set", "zero.stage=1", "--set",
                                     "mesh.cp=2", "--set", "train.batch=7"},
                                    "6"));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err,
                AllOf(HasSubstr("mesh.tp: found 3"), HasSubstr("nearest that can: 2"), HasSubstr("mesh.cp: found 2"),
                      HasSubstr("zero.group: found 7"), HasSubstr("train.batch: found 7")));
    const Result alone = run(train("run", {"--set", "sequence_parallel=true"}));
    EXPECT_EQ(alone.exit_code, 2);
    EXPECT_THAT(alone.err, HasSubstr("sequence_parallel: found true with mesh.tp = 1"));
}

// What stands below the problems is typed in their place, and taken.
TEST_F(SlowLayoutsTest, TheLayoutsThatAreOfferedAreAccepted) {
    const auto offered = [](const std::string& text) {
        std::vector<Words> layouts;
        for (auto at = text.find("\n    --"); at != std::string::npos; at = text.find("\n    --", at + 1)) {
            std::istringstream line(text.substr(at, text.find('\n', at + 1) - at));
            layouts.emplace_back(std::istream_iterator<std::string>(line), std::istream_iterator<std::string>());
        }
        return layouts;
    };
    const Words asked{"--set", "mesh.tp=5", "--set", "zero.group=7", "--set", "zero.stage=1", "--set", "train.batch=7"};
    Words dry = asked;
    dry.push_back("--dry-run");
    for (const std::string ranks : {"6", ""}) {
        const auto layouts = offered(run(train("run", dry, ranks)).err);
        ASSERT_GE(layouts.size(), 2U);
        for (const Words& layout : layouts) {
            Words words = dry;
            words.insert(words.end(), layout.begin(), layout.end());
            EXPECT_EQ(ranks.empty(), layout.front() == "--ranks");
            const Result result = run(train("run", words, ranks));
            EXPECT_EQ(result.exit_code, 0) << testing::PrintToString(layout) << result.err;
        }
    }
    const Result typed = cleave({"memory", "gpt2-124m", "--tp", "5", "--dp", "2"});
    EXPECT_THAT(typed.err, AllOf(HasSubstr("error: --tp: found 5, over which"), Not(HasSubstr("--set"))));
    const auto layouts = offered(typed.err);
    ASSERT_FALSE(layouts.empty());
    for (const Words& layout : layouts) {
        Words words{"memory", "gpt2-124m", "--dp", "2"};
        words.insert(words.end(), layout.begin(), layout.end());
        EXPECT_EQ(cleave(words).exit_code, 0) << testing::PrintToString(layout);
    }
    const Result bench = cleave({"bench", "step", "gpt2-124m", "--batch", "3", "--ranks", "2"});
    EXPECT_THAT(bench.err, AllOf(HasSubstr("--batch: found 3"), HasSubstr("--batch 4")));
}

// At most one chunk a sequence, and ZeRO that cuts nothing: said by everything that shows a layout.
TEST_F(SlowLayoutsTest, WhatALayoutDoesNotDoIsSaidEverywhere) {
    const Words layout{"--set", "mesh.tp=2", "--set", "tensor_parallel_chunks=50", "--set", "zero.reduce=step"};
    const auto has_notes = AllOf(HasSubstr("tensor_parallel_chunks = 50: sent in 8 chunks"),
                                 HasSubstr("zero.reduce = \"step\": so it is in stage 0 anyway"));
    const auto joined = [](std::string text) {
        for (auto at = text.find("\n  "); at != std::string::npos; at = text.find("\n  ")) text.replace(at, 3, " ");
        return text;
    };
    Words short_run = layout;
    short_run.insert(short_run.end(), {"--set", "train.steps=2", "--set", "train.warmup_steps=0"});
    const Result trained = run(train("run", short_run));
    EXPECT_THAT(trained.err, AllOf(has_notes, HasSubstr("gradients reduced once a step")));
    Words dry = layout;
    dry.push_back("--dry-run");
    EXPECT_THAT(joined(run(train("dry", dry)).out), has_notes);
    for (const Words& command :
         {Words{"explain", "runs/tiny.toml", "--ranks", "2"}, Words{"memory", "runs/tiny.toml"}}) {
        Words words = command;
        words.insert(words.end(), layout.begin(), layout.end());
        EXPECT_THAT(joined(cleave(words).out), has_notes) << command.front();
        words.push_back("--json");
        EXPECT_EQ(json_of(cleave(words)).find("notes")->items()->size(), 2U) << command.front();
    }
}

TEST_F(SlowLayoutsTest, ExplainFitsIntoEightyColumnsAndManyRanks) {
    const auto longest = [](const std::string& text) {
        std::size_t most = 0;
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);) most = std::max(most, line.size());
        return most;
    };
    const Result support = cleave({"explain", "--support"});
    EXPECT_LE(longest(support.out), 80U) << support.out;
    EXPECT_THAT(support.out, AllOf(HasSubstr("tp.kv"), HasSubstr("tp.rep")));
    const Result explained = cleave({"explain", "llama3-8b", "--ranks", "4", "--set", "mesh.tp=4", "--set",
                                     "sequence_parallel=true", "--set", "train.dtype=bf16"});
    EXPECT_LE(longest(explained.out), 80U);
    EXPECT_THAT(explained.out,
                AllOf(HasSubstr("computed in bf16"), HasSubstr("batch 1 = dp 1 x 1 microbatch x 1 seq")));
    const Result many = cleave(
        {"explain", "gpt2-124m", "--ranks", "16384", "--set", "mesh.tp=4", "--set", "zero.stage=1", "--rank", "9000"});
    ASSERT_EQ(many.exit_code, 0) << many.err;
    EXPECT_THAT(many.out, AllOf(HasSubstr("9000  pp=0 dp=2250 cp=0 tp=0   <- explained here"),
                                HasSubstr(" 16383  pp=0"), HasSubstr("   ...\n")));
    EXPECT_LT(std::count(many.out.begin(), many.out.end(), '\n'), 1000);
}

TEST_F(SlowLayoutsTest, VerifyProvesALayout) {
    const Result text = cleave({"verify", "runs/tiny.toml", "--ranks", "4", "--set", "mesh.tp=2", "--steps", "2"});
    EXPECT_EQ(text.exit_code, 0) << text.err;
    EXPECT_THAT(text.out, HasSubstr("equal: 4 ranks train this model as one rank does"));
    const Json json =
        json_of(cleave({"verify", "gpt3-175b", "--ranks", "2", "--set", "zero.stage=2", "--set", "train.batch=2",
                        "--shrink", "always", "--dtype", "bf16", "--steps", "1", "--json"}));
    EXPECT_TRUE(*json.find("equal")->boolean());
    EXPECT_THAT(*json.find("shrunk")->string(), HasSubstr("model.layers 96 -> 2"));
    const Result refused = cleave({"verify", "runs/tiny.toml", "--ranks", "4", "--set", "mesh.tp=4"});
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, HasSubstr("mesh.tp: found 4, over which model.heads = 2 cannot be cut evenly"));
}

// Also where the peak is a checkpoint's, for which a rank gathers what is cut; and `memory` counts a run file's layout.
TEST_F(SlowLayoutsTest, ThePlanIsWhatTheRunTakes) {
    Words layout;
    for (const char* set : {"mesh.tp=2", "model.width=256", "model.context=8", "train.steps=6", "train.warmup_steps=1",
                            "train.microbatch=4"})
        layout.insert(layout.end(), {"--set", set});
    Words json = layout;
    json.push_back("--json");
    const Json real = json_of(run(train("run", json)));
    json.push_back("--dry-run");
    const Json dry = json_of(run(train("dry", json)));
    const Json& rank = dry.find("ranks")->items()->front();
    EXPECT_EQ(real.find("peak_bytes")->dump(), rank.find("peak_bytes")->dump());
    const Json& peaks = *real.find("peak_bytes_of_ranks");
    ASSERT_EQ(peaks.items()->size(), 2U);
    for (std::size_t r = 0; r < 2; ++r)
        EXPECT_EQ((*peaks.items())[r].dump(), (*dry.find("ranks")->items())[r].find("peak_bytes")->dump()) << r;
    Words counted{"memory", "runs/tiny.toml", "--json"};
    counted.insert(counted.end(), layout.begin(), layout.end());
    EXPECT_EQ(json_of(cleave(counted)).find("peak_total_bytes")->dump(), rank.find("peak_total_bytes")->dump());
}

TEST_F(SlowLayoutsTest, ExplainAndMemoryAreDocuments) {
    const Json explained = json_of(cleave({"explain", "gpt2-124m", "--ranks", "8", "--set", "mesh.tp=4", "--set",
                                           "train.batch=2", "--rank", "5", "--json"}));
    EXPECT_EQ(explained.find("coordinates")->items()->size(), 8U);
    EXPECT_NE(explained.find("bytes_sent")->find("all_reduce"), nullptr);
    const Json counted = json_of(cleave({"memory", "llama3-405b", "--tp", "8", "--sp", "on", "--zero", "3", "--dp",
                                         "16", "--recompute", "full", "--json"}));
    EXPECT_GT(*counted.find("peak_total_bytes")->integer(), 0);
    EXPECT_EQ(cleave({"explain", "gpt2-124m", "--rank", "1"}).exit_code, 2);
    EXPECT_THAT(cleave({"memory", "gpt2-124m", "--tp", "5"}).err, HasSubstr("nearest that can: 4, 6"));
}

}  // namespace
}  // namespace cleave::test
