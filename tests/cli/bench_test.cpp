// `cleave bench` as a user sees it: formulas beside numbers, JSON, explanations, refusals.
#include "cli/bench_collectives.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "cli/bench_matmul.h"
#include "cli/bench_step.h"
#include "support/scratch.h"

namespace cleave::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

template <class Bench>
std::string printed(const Bench& bench) {
    std::FILE* file = std::tmpfile();
    EXPECT_EQ(bench(file), kExitOk);
    std::string text(static_cast<std::size_t>(std::ftell(file)), '\0');
    std::rewind(file);
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
    std::fclose(file);
    return text;
}

std::string output_of(const BenchOptions& options) {
    return printed([&](std::FILE* file) { return bench_collective(options, file); });
}

BenchOptions small(comm::Operation op, int ranks = 2) {
    BenchOptions options;
    options.op = op;
    options.ranks = ranks;
    options.elements = 1024;
    options.iterations = 2;
    options.warmup = 1;
    return options;
}

TEST(Bench, TheTableSaysWhatItsNumbersAre) {
    const std::string two = output_of(small(comm::Operation::all_reduce));
    EXPECT_THAT(two, AllOf(HasSubstr("n = 2 ranks, sum"), HasSubstr("algbw         bytes / time"),
                           HasSubstr("busbw         2(n-1)/n x bytes / time"),
                           HasSubstr("approximate   2 x bytes / time"), HasSubstr("with n = 2 it is 2 times busbw")));
    EXPECT_THAT(output_of(small(comm::Operation::all_gather, 4)), HasSubstr("with n = 4 it is 1.33 times busbw"));
    EXPECT_THAT(output_of(small(comm::Operation::broadcast)), AllOf(HasSubstr("here the same"), Not(HasSubstr("sum"))));
}

void expect_narrow(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

TEST(Bench, TablesFitIntoEightyColumns) {
    BenchOptions options = small(comm::Operation::all_reduce);
    options.algorithm = comm::Algorithm::halving_doubling;
    for (const bool copy_bound : {false, true}) {
        options.copy_bound = copy_bound;
        expect_narrow(output_of(options));
    }
}

TEST(Bench, JsonNumbersFollowTheirFormulas) {
    BenchOptions options = small(comm::Operation::all_reduce, 4);
    options.json = true;
    options.copy_bound = true;
    const Json json = Json::parse(output_of(options), "bench");
    EXPECT_EQ(*json.find("busbw_formula")->string(), "2(n-1)/n x bytes / time");
    const Json& row = json.find("results")->items()->front();
    const double us = row.find("time_us")->find("mean")->number();
    EXPECT_EQ(*row.find("bytes")->integer(), 4096);
    EXPECT_NEAR(row.find("algbw_gbs")->number(), 4096 / us / 1e3, 1e-9);
    EXPECT_NEAR(row.find("busbw_gbs")->number(), 1.5 * 4096 / us / 1e3, 1e-9);
    EXPECT_NEAR(row.find("busbw_approximate_gbs")->number(), 2.0 * 4096 / us / 1e3, 1e-9);
    EXPECT_NEAR(row.find("copy_bound_ratio")->number(), row.find("copy_us")->number() / us, 1e-9);
}

TEST(Bench, ExplainsInWordsAndInJson) {
    BenchOptions options = small(comm::Operation::reduce_scatter, 4);
    options.explain = true;
    EXPECT_THAT(
        output_of(options),
        AllOf(HasSubstr("direct: ranks share\n    memory"), HasSubstr("canonical order: yes"),
              HasSubstr("rank 0 sends 3072 bytes and receives 3072"), HasSubstr("combine 0.in[0..256) 1.in[0..256)")));
    options.json = true;
    const Json json = Json::parse(output_of(options), "bench");
    EXPECT_EQ(*json.find("explained")->items()->front().find("bytes_sent")->items()->front().integer(), 3072);
}

TEST(Bench, ExplainsSizesOfTheSameStepsOnceInLinesOfATerminal) {
    BenchOptions options = small(comm::Operation::all_reduce, 8);
    options.elements = 0;
    options.explain = true;
    const std::string text = output_of(options);
    std::size_t programs = 0;
    for (auto at = text.find("all_reduce by"); at != std::string::npos; at = text.find("all_reduce by", at + 1))
        ++programs;
    EXPECT_EQ(programs, 1U) << text;
    EXPECT_THAT(text, AllOf(HasSubstr("all_reduce of 4096 bytes"), HasSubstr("up to 67108864 bytes the same steps")));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
    // Fewer elements than ranks: some ranks have no piece, and these are other steps.
    options.min_bytes = 4;
    EXPECT_THAT(output_of(options), AllOf(HasSubstr("of 4 bytes"), HasSubstr("up to 67108864 bytes")));
    options.json = true;
    options.min_bytes = 4096;
    EXPECT_EQ(Json::parse(output_of(options), "bench").find("explained")->items()->size(), 15U);
}

// What is refused has written nothing: neither legend nor half a document.
TEST(Bench, RefusesBeforeItPrints) {
    std::vector<BenchOptions> all(3, small(comm::Operation::all_reduce, 7));
    all[0].algorithm = comm::Algorithm::native;
    all[1].algorithm = comm::Algorithm::hierarchical;
    all[2].elements = 0;
    all[2].min_bytes = 100;
    all[2].max_bytes = 10;
    for (BenchOptions options : all)
        for (const bool explains : {false, true}) {
            options.explain = explains;
            std::FILE* file = std::tmpfile();
            EXPECT_THROW(bench_collective(options, file), UserError);
            EXPECT_EQ(std::ftell(file), 0);
            std::fclose(file);
        }
}

TEST(Bench, RefusesWhatItCannotDo) {
    BenchOptions send = small(comm::Operation::send);
    send.explain = true;
    EXPECT_THROW(bench_collective(send, stdout), UserError);
    BenchOptions mpi = small(comm::Operation::all_reduce);
    mpi.transport = comm::TransportKind::mpi;
    EXPECT_THROW(bench_collective(mpi, stdout), UserError);
    BenchOptions backwards = small(comm::Operation::all_reduce);
    backwards.elements = 0;
    backwards.min_bytes = 8192;
    backwards.max_bytes = 4096;
    EXPECT_THROW(bench_collective(backwards, stdout), UserError);
}

BenchStepOptions small_step() {
    BenchStepOptions options;
    options.model = CLEAVE_SOURCE "/runs/tiny.toml";
    options.sets = {"model.vocabulary=65", "train.batch=2"};
    options.rounds = 2;
    return options;
}

TEST(BenchStep, SaysWhatItsNumbersAre) {
    const std::string text = printed([](std::FILE* file) { return bench_step(small_step(), file); });
    EXPECT_THAT(text, AllOf(HasSubstr("64 tokens a step (2 x 32), f32, 1 rank of"), HasSubstr("tokens / s"),
                            HasSubstr("roofline ratio"), HasSubstr("(2 forward, 4 of the 5 backward)"),
                            HasSubstr("attention_backward"), HasSubstr("the rest, on the host"),
                            HasSubstr("64 x 128 x 32 nn f32 + bias"), HasSubstr("a part of attention")));
    expect_narrow(text);
}

TEST(BenchStep, JsonNumbersFollowTheirFormulas) {
    BenchStepOptions options = small_step();
    options.json = true;
    options.ranks = 2;
    options.sets.emplace_back("train.dtype=bf16");
    const Json json = Json::parse(printed([&](std::FILE* file) { return bench_step(options, file); }), "bench");
    const double mean = json.find("step_time_s")->number();
    EXPECT_NEAR(json.find("tokens_per_s")->number(), 64 / mean, 1e-6 * 64 / mean);
    EXPECT_GT(json.find("roofline_ratio")->number(), 0);
    EXPECT_THAT(*json.find("roofline_ratio_formula")->string(), HasSubstr("visible part"));
    EXPECT_GT(json.find("peak_bytes")->find("parameters")->number(), 0);
    EXPECT_EQ(*json.find("ranks")->integer(), 2);
    double shares =
        (json.find("exposed_comm_s")->number() + json.find("host_s")->number()) / json.find("traced_step_s")->number();
    for (const Json& kernel : *json.find("kernels")->items()) {
        shares += kernel.find("share")->number();
        EXPECT_NEAR(kernel.find("gflops_per_s")->number() * kernel.find("seconds")->number() * 1e9,
                    kernel.find("flops")->number(), 1);
    }
    EXPECT_NEAR(shares, 1, 1e-9);
    double products = 0;
    for (const Json& product : *json.find("products")->items()) {
        EXPECT_EQ(*product.find("dtype")->string(), "bf16");
        products += product.find("count")->number() * product.find("seconds")->number();
    }
    EXPECT_GT(products, 0);
}

// The run of `cleave init --data any.txt` counts the tokens of its text, and its weights say how large the model is.
TEST(BenchStep, MeasuresTheModelThatTheRunWouldTrain) {
    BenchStepOptions options = small_step();
    options.json = true;
    options.rounds = 1;
    options.sets = {"train.batch=2"};
    const auto parameters = [&] {
        const Json json = Json::parse(printed([&](std::FILE* file) { return bench_step(options, file); }), "bench");
        return *json.find("parameters")->integer();
    };
    const std::int64_t of_text = parameters();
    options.sets.emplace_back("model.vocabulary=1000");
    EXPECT_LT(of_text, parameters());
    const ScratchFolder folder;
    options.model = (folder / "run.toml").string();  // as the weights' config.json says: 2 layers, width 24, ...
    write_all(options.model, "[model]\nweights = \"" CLEAVE_SOURCE "/tests/golden/models/gpt2\"\n");
    options.sets = {"train.batch=2"};
    const std::int64_t block = 2 * 2 * 24 + (24 * 72 + 72) + (24 * 24 + 24) + (24 * 40 + 40) + (40 * 24 + 24);
    EXPECT_EQ(parameters(), (47 + 20) * 24 + 2 * block + 2 * 24);
}

TEST(BenchStep, RefusesAModelWithoutVocabularyAndTellsAllProblemsAtOnce) {
    BenchStepOptions options = small_step();
    options.sets = {"data.path=", "train.batch=0"};
    EXPECT_THROW(bench_step(options, stdout), UserError);
    options.sets = {"data.path=", "model.heads=3", "train.batch=3"};
    options.ranks = 2;
    try {
        bench_step(options, stdout);
        FAIL() << "accepted";
    } catch (const UserError& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr("model.heads: found 3"), HasSubstr("train.batch: found 3"),
                                        HasSubstr("model.vocabulary: found 0"), Not(HasSubstr("data.path"))));
    }
}

TEST(BenchMatmul, MeasuresEachDtype) {
    BenchMatmulOptions options{.m = 3, .n = 5, .k = 7, .form = "tn", .dtypes = {DType::f32, DType::f64}, .rounds = 3};
    EXPECT_THAT(printed([&](std::FILE* file) { return bench_matmul(options, file); }),
                AllOf(HasSubstr("3 x 5 x 7 tn f32"), HasSubstr("oneDNN"), HasSubstr("3 x 5 x 7 tn f64")));
    options.json = true;
    const Json json = Json::parse(printed([&](std::FILE* file) { return bench_matmul(options, file); }), "bench");
    for (const Json& row : *json.find("results")->items()) {
        const double us = row.find("time_us")->find("median")->number();
        EXPECT_NEAR(row.find("gflops_per_s")->number(), 2.0 * 3 * 5 * 7 / us / 1e3, 1e-9);
    }
}

}  // namespace
}  // namespace cleave::cli
