// Bandwidth formulas against figures worked out by hand, and measurements of every operation.
#include "comm/measure.h"

#include "ranks.h"

namespace cleave::comm::test {
namespace {

// 100 million floats in 1.6 ms: 250, 375, 437.5 GB/s on 2, 4, 8 ranks; 500 by the approximation for many.
TEST(Measure, BandwidthOfAllReduceAsWorkedOutByHand) {
    Measurement m;
    m.bytes = 400'000'000;
    m.mean = 1.6e-3;
    const double algbw = m.algorithm_bandwidth() / 1e9;
    EXPECT_DOUBLE_EQ(algbw, 250);
    EXPECT_DOUBLE_EQ(algbw * bus_factor(Operation::all_reduce, 2), 250);
    EXPECT_DOUBLE_EQ(algbw * bus_factor(Operation::all_reduce, 4), 375);
    EXPECT_DOUBLE_EQ(algbw * bus_factor(Operation::all_reduce, 8), 437.5);
    EXPECT_DOUBLE_EQ(algbw * approximate_bus_factor(Operation::all_reduce), 500);
}

// What all ranks send together, 2 x bytes x (n - 1), over (n x time), counted from the program.
TEST(Measure, BusBandwidthIsTheBytesSentOverRanksAndTime) {
    for (const int n : {2, 3, 4, 8}) {
        const std::int64_t elements = 840;
        for (const Operation o :
             {Operation::all_reduce, Operation::reduce_scatter, Operation::all_gather, Operation::all_to_all}) {
            const Program p =
                build_program({o, Algorithm::direct, n, 0, 0, {cut_into_pieces(o) ? elements / n : elements}});
            std::int64_t sent = 0;
            for (int r = 0; r < n; ++r) sent += p.bytes_sent(r, DType::f32);
            EXPECT_DOUBLE_EQ(bus_factor(o, n) * 4 * elements, static_cast<double>(sent) / n) << name_of(o) << " " << n;
        }
    }
}

TEST(Measure, EveryOperationIsMeasuredAndItsResultsAreRight) {
    for (const int n : sizes())
        on_ranks(n, [](Communicator& world) {
            std::vector<Operation> operations(std::begin(kCollectives), std::end(kCollectives));
            operations.push_back(Operation::send);
            for (const Operation o : operations) {
                const Measurement m = measure(
                    world, {.operation = o, .iterations = 2, .warmup = 1, .copy_bound = o != Operation::barrier}, 1000);
                EXPECT_EQ(m.wrong, 0) << name_of(o);
                EXPECT_GE(m.min, 0) << name_of(o);
                EXPECT_LE(m.min, m.mean) << name_of(o);
                EXPECT_LE(m.mean, m.max) << name_of(o);
                EXPECT_GE(m.elements, o == Operation::barrier ? 0 : 1000);
                EXPECT_EQ(m.elements % (cut_into_pieces(o) ? world.size() : 1), 0);
                EXPECT_EQ(m.bytes, 4 * m.elements);
            }
        });
}

// Every sum of the inputs of 40 ranks is above 255, which u8 cannot hold: the check must see that.
TEST(Inproc, AWrongResultIsCounted) {
    run_ranks({.ranks = 40}, [](Communicator& world) {
        const Measurement m =
            measure(world, {.operation = Operation::all_reduce, .dtype = DType::u8, .iterations = 1, .warmup = 0}, 64);
        EXPECT_EQ(m.wrong, 40 * 64);
    });
}

}  // namespace
}  // namespace cleave::comm::test
