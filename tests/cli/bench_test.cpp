// `cleave bench` as a user sees it: formulas beside numbers, JSON, explanations, refusals.
#include "cli/bench_collectives.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <string>

#include "base/error.h"
#include "base/json.h"

namespace cleave::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string output_of(const BenchOptions& options) {
    std::FILE* file = std::tmpfile();
    EXPECT_EQ(bench_collective(options, file), kExitOk);
    std::string text(static_cast<std::size_t>(std::ftell(file)), '\0');
    std::rewind(file);
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
    std::fclose(file);
    return text;
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
    EXPECT_THAT(output_of(options), AllOf(HasSubstr("direct: ranks share memory"), HasSubstr("canonical order: yes"),
                                          HasSubstr("rank 0 sends 3072 bytes and receives 3072"),
                                          HasSubstr("combine 0.in[0..256) 1.in[0..256)")));
    options.json = true;
    const Json json = Json::parse(output_of(options), "bench");
    EXPECT_EQ(*json.find("explained")->items()->front().find("bytes_sent")->items()->front().integer(), 3072);
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

}  // namespace
}  // namespace cleave::cli
