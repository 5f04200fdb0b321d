// A process of a job under mpirun is killed: the job ends in bounded time with a non-zero exit, mpirun names the rank,
// and the others say what their last operation was. Slow not for its time but for its name's sake: it starts mpirun
// itself, so it runs neither under mpirun nor under a sanitizer.
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "base/stop.h"
#include "ranks.h"

namespace cleave::comm::test {
namespace {

constexpr int kVictim = 2;

// Late enough for the others to wait asleep.
void die() {
    std::this_thread::sleep_for(milliseconds(300));
    ::raise(SIGKILL);
}

void die_in_a_collective(Communicator& world) {
    std::vector<float> x(1000, 1.0f);
    for (int step = 0; step < 100; ++step) {
        if (step == 7 && world.rank() == kVictim) die();
        world.all_reduce(x.data(), x.data(), 1000, DType::f32, ReduceOp::avg).wait();
    }
}

// As in training: SIGTERM asks for a stop after the step, which never comes.
void die_in_training(Communicator& world) {
    float x = 0;
    if (world.rank() == kVictim) die();
    const int ranks[] = {0, 1};
    Communicator pair = world.group(ranks);
    if (world.rank() == 1) std::this_thread::sleep_for(milliseconds(100));  // rank 0 waits asleep, and that ends
    pair.all_reduce(&x, &x, 1, DType::f32, ReduceOp::max).wait();
    if (world.rank() == 1) world.recv(&x, 1, DType::f32, kVictim, 4);
    while (!stop_requested()) std::this_thread::sleep_for(milliseconds(5));  // rank 0 computes
    std::fputs("rank 0 stops\n", stderr);
    std::this_thread::sleep_for(std::chrono::seconds(60));
}

struct Outcome {
    int status;
    double seconds;
    std::string output;
};

Outcome run_under_mpirun(const std::string& what) {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    const std::string command =
        "timeout 60 mpirun --allow-run-as-root --oversubscribe -n 3 '" + self + "' --die-in " + what + " 2>&1";
    const auto start = Clock::now();
    std::FILE* pipe = ::popen(command.c_str(), "r");
    EXPECT_NE(pipe, nullptr);
    Outcome outcome{};
    std::array<char, 4096> part;
    while (std::fgets(part.data(), part.size(), pipe) != nullptr) outcome.output += part.data();
    outcome.status = ::pclose(pipe);
    outcome.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return outcome;
}

void expect_named_culprit_and_last_operations(const Outcome& job, const std::string& of_rank_0,
                                              const std::string& of_rank_1) {
    const auto contains = [&](const std::string& text) { return job.output.find(text) != std::string::npos; };
    EXPECT_TRUE(WIFEXITED(job.status) && WEXITSTATUS(job.status) == 128 + SIGKILL) << job.status;
    EXPECT_LT(job.seconds, 30);
    EXPECT_TRUE(contains("process rank 2 ")) << job.output;  // mpirun's own words
    EXPECT_TRUE(contains("rank 0 was told to end: " + of_rank_0 + "\n")) << job.output;
    EXPECT_TRUE(contains("rank 1 was told to end: " + of_rank_1 + "\n")) << job.output;
}

TEST(SlowKilled, InACollectiveTheOthersNameIt) {
    const std::string waited = "it waited in all_reduce #7 (avg, f32, 1000 elements, direct) of ranks 0, 1, 2";
    expect_named_culprit_and_last_operations(run_under_mpirun("a_collective"), waited, waited);
}

TEST(SlowKilled, InTrainingTheOthersNameTheirLastOperation) {
    const Outcome job = run_under_mpirun("training");
    expect_named_culprit_and_last_operations(
        job, "its last operation was all_reduce #0 (max, f32, 1 elements, direct) of ranks 0, 1",
        "it waited in recv from rank 2, tag 4 (f32, 1 elements)");
    EXPECT_NE(job.output.find("rank 0 stops\n"), std::string::npos) << job.output;
}

}  // namespace

int die_in(const std::string& what) {
    if (what == "training") install_stop_handler(false);
    run_ranks({}, what == "training" ? die_in_training : die_in_a_collective);
    return 0;
}

}  // namespace cleave::comm::test
