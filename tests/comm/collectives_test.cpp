// The collectives by their definitions, in small exact cases; dtypes_test.cpp has every dtype and reduction.
#include <algorithm>
#include <numeric>

#include "ranks.h"

namespace cleave::comm::test {
namespace {

using Floats = std::vector<float>;

Floats counting(int n, float first) {
    Floats v(static_cast<std::size_t>(n));
    std::iota(v.begin(), v.end(), first);
    return v;
}

TEST(Collectives, BroadcastFromAnyRoot) {
    for (const int n : sizes())
        for (int root = 0; root < n; ++root)
            on_ranks(n, [&](Communicator& world) {
                Floats x = world.rank() == root ? Floats{0, 1, 2, 3} : Floats{-1, -1, -1, -1};
                world.broadcast(x.data(), 4, DType::f32, root).wait();
                EXPECT_EQ(x, (Floats{0, 1, 2, 3}));
            });
}

// Programs are kept for repeated calls: one that differs in a single thing is another one.
TEST(Collectives, ProgramsOfOneGroupAreKeptApart) {
    for (const int n : sizes())
        on_ranks(n, [&](Communicator& world) {
            for (int root = 0; root < n; ++root)
                for (const int count : {3, 4}) {
                    Floats x(4, static_cast<float>(world.rank()));
                    world.broadcast(x.data(), count, DType::f32, root).wait();
                    EXPECT_EQ(x[2], static_cast<float>(root));
                    EXPECT_EQ(x[3], static_cast<float>(count == 4 ? root : world.rank()));
                }
            for (const Algorithm a : algorithms_for(Operation::all_reduce, n)) {
                const Stats before = world.stats();
                Floats x(64, 1.0f);
                world.all_reduce(x.data(), x.data(), 64, DType::f32, ReduceOp::sum, a).wait();
                world.barrier().wait();
                const Program program = build_program({Operation::all_reduce, a, n, 0, 0, {64}});
                EXPECT_EQ(world.stats().sent_by(Operation::all_reduce) - before.sent_by(Operation::all_reduce),
                          program.bytes_sent(world.rank(), DType::f32))
                    << name_of(a);
            }
        });
}

TEST(Collectives, ScatterCutsAndGatherJoins) {
    for (const int n : sizes())
        for (int root = 0; root < n; ++root)
            on_ranks(n, [&](Communicator& world) {
                const bool is_root = world.rank() == root;
                const Floats x = counting(2 * n, 0);
                Floats piece(2, -1);
                world.scatter(is_root ? x.data() : nullptr, piece.data(), 2, DType::f32, root).wait();
                EXPECT_EQ(piece, counting(2, static_cast<float>(2 * world.rank())));
                Floats joined(x.size(), -1);
                world.gather(piece.data(), is_root ? joined.data() : nullptr, 2, DType::f32, root).wait();
                EXPECT_EQ(joined, is_root ? x : Floats(x.size(), -1));
            });
}

TEST(Collectives, ReduceLandsOnTheRootAndLeavesOthersAlone) {
    for (const int n : sizes())
        for (int root = 0; root < n; ++root)
            on_ranks(n, [&](Communicator& world) {
                const float x = static_cast<float>(world.rank());
                const float sum = static_cast<float>(n * (n - 1)) / 2;
                const std::pair<ReduceOp, float> cases[] = {{ReduceOp::sum, sum},
                                                            {ReduceOp::avg, sum / static_cast<float>(n)},
                                                            {ReduceOp::max, static_cast<float>(n - 1)},
                                                            {ReduceOp::min, 0.0f}};
                for (const auto& [op, expected] : cases) {
                    float y = -7;
                    world.reduce(&x, &y, 1, DType::f32, op, root).wait();
                    EXPECT_EQ(y, world.rank() == root ? expected : -7.0f);  // 0 + 1 + 2 + 3 = 6 on four ranks
                }
            });
}

TEST(Collectives, AllGatherIsTheConcatenation) {
    for (const int n : sizes())
        on_ranks(n, [&](Communicator& world) {
            const Floats piece = counting(3, static_cast<float>(3 * world.rank()));
            Floats all(static_cast<std::size_t>(3 * n), -1);
            world.all_gather(piece.data(), all.data(), 3, DType::f32).wait();
            EXPECT_EQ(all, counting(3 * n, 0));
        });
}

// [r, r+1, ...] on rank r of n: element i sums to n i + n (n - 1) / 2; on four ranks 6, 10, 14, 18.
TEST(Collectives, ReduceScatterAndAllReduceOfTheTextbookCase) {
    for (const int n : sizes())
        on_ranks(n, [&](Communicator& world) {
            const Floats x = counting(n, static_cast<float>(world.rank()));
            Floats sums(x.size());
            for (int i = 0; i < n; ++i) sums[static_cast<std::size_t>(i)] = static_cast<float>(n * i + n * (n - 1) / 2);
            float mine = -1;
            world.reduce_scatter(x.data(), &mine, 1, DType::f32, ReduceOp::sum).wait();
            EXPECT_EQ(mine, sums[static_cast<std::size_t>(world.rank())]);
            Floats y(x.size(), -1);
            world.all_reduce(x.data(), y.data(), n, DType::f32, ReduceOp::sum).wait();
            EXPECT_EQ(y, sums);
            if (n == 4) {
                EXPECT_EQ(y, (Floats{6, 10, 14, 18}));
            }
        });
}

TEST(Collectives, AllToAllTwiceIsNothing) {
    for (const int n : sizes())
        on_ranks(n, [&](Communicator& world) {
            const Floats x = input_of<float>(world.rank(), 2 * n);
            Floats y(x.size());
            Floats z(x.size());
            world.all_to_all(x.data(), y.data(), 2, DType::f32).wait();
            for (int from = 0; from < n; ++from)
                for (int i = 0; i < 2; ++i)
                    EXPECT_EQ(y[static_cast<std::size_t>(2 * from + i)],
                              input_value<float>(from, 2 * world.rank() + i));
            world.all_to_all(y.data(), z.data(), 2, DType::f32).wait();
            EXPECT_EQ(z, x);
        });
}

// Piece p of rank r has (r + 2p) mod 4 elements.
TEST(Collectives, UnequalAllToAllAndItsInverse) {
    for (const int n : sizes())
        on_ranks(n, [&](Communicator& world) {
            std::vector<std::int64_t> counts;
            std::vector<std::int64_t> back(static_cast<std::size_t>(n * n));
            std::int64_t ins = 0;
            std::int64_t outs = 0;
            for (int s = 0; s < n; ++s)
                for (int d = 0; d < n; ++d) {
                    counts.push_back((s + 2 * d) % 4);
                    back[static_cast<std::size_t>(d * n + s)] = counts.back();
                    if (s == world.rank()) ins += counts.back();
                    if (d == world.rank()) outs += counts.back();
                }
            const auto x = input_of<std::int32_t>(world.rank(), ins);
            std::vector<std::int32_t> y(static_cast<std::size_t>(outs));
            std::vector<std::int32_t> z(x.size());
            world.all_to_all(x.data(), y.data(), counts, DType::i32).wait();
            world.all_to_all(y.data(), z.data(), back, DType::i32).wait();
            EXPECT_EQ(z, x);
            std::size_t at = 0;
            for (int s = 0; s < n; ++s) {
                std::int64_t offset = 0;
                for (int d = 0; d < world.rank(); ++d) offset += counts[static_cast<std::size_t>(s * n + d)];
                for (std::int64_t i = 0; i < counts[static_cast<std::size_t>(s * n + world.rank())]; ++i)
                    EXPECT_EQ(y[at++], input_value<std::int32_t>(s, offset + i));
            }
        });
}

TEST(Collectives, UnequalPiecesWithEmptyOnes) {
    for (const int n : sizes())
        for (const Algorithm a : algorithms_for(Operation::all_gather, n))
            on_ranks(n, [&](Communicator& world) {
                std::vector<std::int64_t> counts;
                for (int r = 0; r < n; ++r) counts.push_back(r % 3 * 5);  // 0, 5, 10, 0, ...
                const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
                const std::int64_t own = counts[static_cast<std::size_t>(world.rank())];
                const std::int64_t before =
                    std::accumulate(counts.begin(), counts.begin() + world.rank(), std::int64_t{0});
                const int root = n - 1;

                std::vector<double> whole;
                for (int r = 0; r < n; ++r) {
                    const auto part = input_of<double>(r, counts[static_cast<std::size_t>(r)]);
                    whole.insert(whole.end(), part.begin(), part.end());
                }
                const auto piece = input_of<double>(world.rank(), own);
                std::vector<double> all(static_cast<std::size_t>(total));
                world.all_gather(piece.data(), all.data(), counts, DType::f64, a).wait();
                EXPECT_EQ(all, whole);
                std::vector<double> gathered(static_cast<std::size_t>(total));
                world.gather(piece.data(), gathered.data(), counts, DType::f64, root).wait();
                if (world.rank() == root) {
                    EXPECT_EQ(gathered, whole);
                }
                std::vector<double> scattered(static_cast<std::size_t>(own));
                world.scatter(gathered.data(), scattered.data(), counts, DType::f64, root).wait();
                EXPECT_EQ(scattered, piece);

                const auto long_input = input_of<double>(world.rank(), total);
                std::vector<double> sum(static_cast<std::size_t>(own));
                world.reduce_scatter(long_input.data(), sum.data(), counts, DType::f64, ReduceOp::sum, a).wait();
                for (std::int64_t i = 0; i < own; ++i) {
                    const double expected = reference<double>(ReduceOp::sum, n, before + i);
                    if (follows_canonical_order(a))
                        EXPECT_EQ(sum[static_cast<std::size_t>(i)], expected);
                    else
                        EXPECT_NEAR(sum[static_cast<std::size_t>(i)], expected, 1e-9);
                }
            });
}

TEST(Collectives, AllReduceEqualsReduceScatterThenAllGatherBitForBit) {
    for (const int n : sizes())
        on_ranks(n, [&](Communicator& world) {
            for (const Algorithm a : {Algorithm::direct, Algorithm::halving_doubling}) {
                const std::int64_t piece = 100;
                const auto x = input_of<float>(world.rank(), piece * n);
                Floats whole(x.size());
                Floats part(100);
                Floats joined(x.size());
                world.all_reduce(x.data(), whole.data(), piece * n, DType::f32, ReduceOp::sum, a).wait();
                world.reduce_scatter(x.data(), part.data(), piece, DType::f32, ReduceOp::sum, a).wait();
                world.all_gather(part.data(), joined.data(), piece, DType::f32, a).wait();
                EXPECT_TRUE(same_bits(whole, joined));
            }
        });
}

// The bits of a sum depend on the ranks' values only: not on the message's size, its cuts, or the algorithm. 3 MiB
// passes the size from which results are stored past the caches.
TEST(Collectives, BitsDoNotDependOnMessageOrBucketSize) {
    for (const int n : sizes())
        on_ranks(n, [&](Communicator& world) {
            const std::int64_t total = 50000;
            const auto x = input_of<float>(world.rank(), total);
            Floats whole(x.size());
            world.all_reduce(x.data(), whole.data(), total, DType::f32, ReduceOp::sum).wait();
            for (std::int64_t i = 0; i < total; i += 997)
                EXPECT_EQ(whole[static_cast<std::size_t>(i)], reference<float>(ReduceOp::sum, n, i));
            for (const std::int64_t bucket : {1000, 4096, 33333}) {
                Floats y(x.size());
                std::vector<Handle> handles;
                for (std::int64_t first = 0; first < total; first += bucket)
                    handles.push_back(world.all_reduce(x.data() + first, y.data() + first,
                                                       std::min(bucket, total - first), DType::f32, ReduceOp::sum));
                for (Handle& h : handles) h.wait();
                EXPECT_TRUE(same_bits(whole, y)) << bucket;
            }
        });
}

TEST(Collectives, LargeMessagesWithUnalignedBuffers) {
    for (const int n : sizes(2))
        on_ranks(n, [&](Communicator& world) {
            const std::int64_t total = 1'500'001;
            Floats x(static_cast<std::size_t>(total) + 1);
            Floats y(x.size());
            for (std::int64_t i = 0; i < total; ++i)
                x[static_cast<std::size_t>(i) + 1] = static_cast<float>((i + world.rank()) % 1000);
            world.all_reduce(x.data() + 1, y.data() + 1, total, DType::f32, ReduceOp::sum).wait();
            std::int64_t wrong = 0;
            for (std::int64_t i = 0; i < total; ++i) {
                float expected = 0;
                for (int r = 0; r < n; ++r) expected += static_cast<float>((i + r) % 1000);
                wrong += y[static_cast<std::size_t>(i) + 1] != expected ? 1 : 0;
            }
            EXPECT_EQ(wrong, 0);
            EXPECT_EQ(y[0], 0.0f);
        });
}

// Whichever rank has it, and whether an element is combined alone or in a line of many.
TEST(Collectives, NanIsNotLost) {
    for (const int n : sizes(2))
        on_ranks(n, [&](Communicator& world) {
            for (const ReduceOp op : kReduceOps)
                for (const int holder : {0, n - 1}) {
                    const Floats x(200, world.rank() == holder ? std::nanf("") : 1.0f);
                    Floats y(x.size());
                    world.all_reduce(x.data(), y.data(), 200, DType::f32, op).wait();
                    const auto lost = std::count_if(y.begin(), y.end(), [](float v) { return !std::isnan(v); });
                    EXPECT_EQ(lost, 0) << name_of(op) << " of rank " << holder;
                }
        });
}

}  // namespace
}  // namespace cleave::comm::test
