// The trace that a run exports, read as a user's tool would: when gradients are reduced, and what each rank loads.
#include <gmock/gmock.h>

#include <map>

#include "training.h"

namespace cleave::test {
namespace {

struct Entry {
    std::string phase, category, name, detail;
    std::int64_t thread = 0;
    std::int64_t bytes = 0;
    double begin = 0;
    double end = 0;
};

// Every rank's entries, in the order of the file: that of the rank's program.
std::map<std::int64_t, std::vector<Entry>> entries_of(const std::filesystem::path& file) {
    const Json document = Json::parse(read_all(file), file.string());
    const auto text = [](const Json& from, const char* key) {
        const Json* value = from.find(key);
        return value == nullptr ? std::string() : *value->string();
    };
    std::map<std::int64_t, std::vector<Entry>> ranks;
    for (const Json& event : *document.find("traceEvents")->items()) {
        Entry entry;
        entry.phase = text(event, "ph");
        if (entry.phase != "X" && entry.phase != "i") continue;
        entry.category = entry.phase == "i" ? "mark" : text(event, "cat");
        entry.name = text(event, "name");
        entry.thread = *event.find("tid")->integer();
        entry.begin = event.find("ts")->number();
        entry.end = entry.begin;
        if (entry.phase == "X") {
            entry.end += event.find("dur")->number();
            entry.detail = text(*event.find("args"), "detail");
            entry.bytes = *event.find("args")->find("bytes")->integer();
        }
        ranks[*event.find("pid")->integer()].push_back(entry);
    }
    return ranks;
}

class SlowTraceTest : public SlowTrainingTest {
  protected:
    // The step 2 of two ranks with accumulation 3 (12 = 2 x 3 x 2) and several buckets of gradients.
    std::map<std::int64_t, std::vector<Entry>> traced() const {
        const Result result =
            run(train("run", {"--set", "run.trace_step=2", "--set", "train.batch=12", "--set", "train.microbatch=2",
                              "--set", "train.bucket_bytes=16384", "--set", "train.steps=6"}));
        EXPECT_EQ(result.exit_code, 0) << result.err;
        return entries_of(folder_ / "run" / "trace.json");
    }
};

std::size_t position_of_mark(const std::vector<Entry>& entries, const std::string& name) {
    std::size_t at = entries.size();
    for (std::size_t i = 0; i < entries.size(); ++i)
        if (entries[i].category == "mark" && entries[i].name == name) {
            EXPECT_EQ(at, entries.size()) << "'" << name << "' stands twice";
            at = i;
        }
    EXPECT_LT(at, entries.size()) << "no '" << name << "'";
    return at;
}

struct Reduction {
    std::vector<std::size_t> issued, waited, in_flight;
};

TEST_F(SlowTraceTest, EachBucketIsReducedOnceAStepWhileBackwardStillRuns) {
    const auto ranks = traced();
    ASSERT_EQ(ranks.size(), 2U);
    for (const auto& [rank, entries] : ranks) {
        const std::size_t last_backward = position_of_mark(entries, "backward 2");
        const std::size_t reduce = position_of_mark(entries, "reduce");
        std::size_t last_launch = 0;  // of backward
        std::map<std::string, Reduction> buckets;
        for (std::size_t i = 0; i < entries.size(); ++i) {
            const Entry& entry = entries[i];
            if (entry.category == "launch" && i < reduce) last_launch = i;
            if (!entry.detail.starts_with("gradient bucket")) continue;
            const std::string bucket = entry.detail.substr(0, entry.detail.find(" #"));
            if (entry.category == "issue") buckets[bucket].issued.push_back(i);
            if (entry.category == "wait") buckets[bucket].waited.push_back(i);
            if (entry.category == "in flight") buckets[bucket].in_flight.push_back(i);
        }
        ASSERT_GE(buckets.size(), 4U);
        int after_the_last_launch = 0;
        for (const auto& [name, reduction] : buckets) {
            ASSERT_EQ(reduction.issued.size(), 1U) << name << " on rank " << rank;
            ASSERT_EQ(reduction.waited.size(), 1U) << name;
            ASSERT_EQ(reduction.in_flight.size(), 1U) << name;
            const std::size_t issue = reduction.issued.front();
            const std::size_t wait = reduction.waited.front();
            EXPECT_GT(issue, last_backward) << name << " was reduced before its gradients were complete";
            EXPECT_LT(issue, reduce) << name << " waited for the whole backward";
            EXPECT_GT(wait, reduce) << name << " held backward up";
            const auto launches = std::count_if(entries.begin() + static_cast<std::ptrdiff_t>(issue),
                                                entries.begin() + static_cast<std::ptrdiff_t>(wait),
                                                [](const Entry& entry) { return entry.category == "launch"; });
            // One bucket is completed by the last kernel of backward itself: nothing is left to run beside it.
            after_the_last_launch += issue > last_launch ? 1 : 0;
            EXPECT_TRUE(launches > 0 || issue > last_launch) << name << " ran beside nothing";
            const Entry& span = entries[reduction.in_flight.front()];
            EXPECT_NEAR(span.begin, entries[issue].begin, 1e-3);
            EXPECT_NEAR(span.end, entries[wait].end, 2e-3);
        }
        EXPECT_EQ(after_the_last_launch, 1);
    }
}

// Of every step; the traced one's is the sum over its events, and the result has the mean.
TEST_F(SlowTraceTest, ExposedCommunicationIsToldOfEveryStep) {
    const Result result = run(train("run", {"--set", "run.trace_step=2", "--set", "train.steps=6", "--json"}));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const double told = Json::parse(result.out, "result").find("exposed_comm_s")->number();
    EXPECT_GT(told, 0);
    const std::filesystem::path folder = folder_ / "run";
    double counted = 0;
    const Json document = Json::parse(read_all(folder / "trace.json"), "trace.json");
    for (const Json& event : *document.find("traceEvents")->items())
        if (*event.find("pid")->integer() == 0 && *event.find("name")->string() == "exposed communication s")
            counted = event.find("args")->find("exposed_comm_s")->number();
    double sum = 0;
    int steps = 0;
    for (const Json& line : read_metrics(folder / "metrics.jsonl")) {
        const Json* seconds = line.find("step_time_s");  // of a step of training
        ASSERT_EQ(line.find("exposed_comm_s") != nullptr, seconds != nullptr) << line.dump();
        if (seconds == nullptr) continue;
        const double exposed = line.find("exposed_comm_s")->number();
        EXPECT_GT(exposed, 0);
        EXPECT_LT(exposed, seconds->number());
        if (*line.find("step")->integer() == 2) {
            EXPECT_NEAR(exposed, counted, 1e-8);
        }
        sum += exposed;
        ++steps;
    }
    ASSERT_EQ(steps, 6);
    EXPECT_NEAR(told, sum / steps, 1e-12);
}

TEST_F(SlowTraceTest, EachRankLoadsItsOwnRowsAndRunsOneProgram) {
    const auto ranks = traced();
    std::vector<std::vector<std::string>> programs;
    for (const auto& [rank, entries] : ranks) {
        std::int64_t tokens = 0;
        double now = 0;
        std::vector<std::string> program;
        for (const Entry& entry : entries) {
            if (entry.category == "write" && entry.detail == "tokens") {
                EXPECT_EQ(entry.bytes, 2 * 32 * 4) << "a microbatch has 2 rows of 32 tokens";
                tokens += entry.bytes / 4;
            }
            if (entry.category == "in flight") continue;
            EXPECT_GE(entry.begin, now) << entry.name << " stands before its time";
            now = entry.begin;
            program.push_back(entry.category + " " + entry.name + " " + entry.detail);
        }
        EXPECT_EQ(tokens, 12 / 2 * 32) << "rank " << rank << " loads half of the batch";
        programs.push_back(program);
    }
    EXPECT_EQ(programs.at(0), programs.at(1));
}

}  // namespace
}  // namespace cleave::test
