// Messages between two ranks, and the bytes that everything moves.
#include <algorithm>
#include <numeric>

#include "base/log.h"
#include "ranks.h"

namespace cleave::comm::test {
namespace {

TEST(Messages, GoRoundTheRing) {
    for (const int n : sizes())
        on_ranks(n, [&](Communicator& world) {
            const auto x = input_of<double>(world.rank(), 1000);
            std::vector<double> y(1000);
            const int left = (world.rank() + n - 1) % n;
            Handle out = world.isend(x.data(), 1000, DType::f64, (world.rank() + 1) % n, 3);
            world.recv(y.data(), 1000, DType::f64, left, 3);
            out.wait();
            EXPECT_EQ(y, input_of<double>(left, 1000));
        });
}

TEST(Messages, TagsMatchAndOrderWithinATagIsKept) {
    for (const int n : sizes(2))
        on_ranks(n, [&](Communicator& world) {
            const int values[] = {10, 11, 20, 21};
            if (world.rank() == 0) {
                std::vector<Handle> h;
                h.push_back(world.isend(&values[0], 1, DType::i32, 1, 1));
                h.push_back(world.isend(&values[2], 1, DType::i32, 1, 2));
                h.push_back(world.isend(&values[1], 1, DType::i32, 1, 1));
                h.push_back(world.isend(&values[3], 1, DType::i32, 1, 2));
            } else if (world.rank() == 1) {
                int got[4] = {};
                Handle b0 = world.irecv(&got[2], 1, DType::i32, 0, 2);
                Handle b1 = world.irecv(&got[3], 1, DType::i32, 0, 2);
                world.recv(&got[0], 1, DType::i32, 0, 1);
                world.recv(&got[1], 1, DType::i32, 0, 1);
                b1.wait();
                b0.wait();
                EXPECT_TRUE(std::equal(got, got + 4, values));
            }
        });
}

// The receiver looks for both all the time, so that some messages come between its looks for the first and the second.
TEST(Messages, ThatArriveWhileLookedForKeepTheirOrder) {
    for (const int n : sizes(2))
        on_ranks(n, [&](Communicator& world) {
            constexpr int kPairs = 500;
            for (int k = 0; k < kPairs; ++k) {
                if (world.rank() == 0) {
                    const int sent[] = {2 * k, 2 * k + 1};
                    world.recv(nullptr, 0, DType::i32, 1);  // the receiver is ready
                    Handle first = world.isend(&sent[0], 1, DType::i32, 1, 1);
                    Handle second = world.isend(&sent[1], 1, DType::i32, 1, 1);
                    second.wait();
                } else if (world.rank() == 1) {
                    int got[] = {-1, -1};
                    Handle first = world.irecv(&got[0], 1, DType::i32, 0, 1);
                    Handle second = world.irecv(&got[1], 1, DType::i32, 0, 1);
                    world.send(nullptr, 0, DType::i32, 0);
                    while (!first.test() || !second.test()) continue;
                    EXPECT_EQ(got[0], 2 * k);
                    EXPECT_EQ(got[1], 2 * k + 1);
                }
            }
        });
}

TEST(Messages, ToOneselfAndEmpty) {
    for (const int n : sizes())
        on_ranks(n, [&](Communicator& world) {
            const float x = 5;
            float y = 0;
            Handle out = world.isend(&x, 1, DType::f32, world.rank());
            world.recv(&y, 1, DType::f32, world.rank());
            out.wait();
            EXPECT_EQ(y, 5.0f);
            Handle nothing = world.isend(nullptr, 0, DType::f32, (world.rank() + 1) % n);
            world.recv(nullptr, 0, DType::f32, (world.rank() + n - 1) % n);
            nothing.wait();
        });
}

// Every rank sends many messages of many sizes under many tags to every other, all in flight at once, received in an
// order of the receiver's own. Each message's contents say what it is; none may be lost or swapped.
TEST(Messages, StressNothingIsLostOrSwapped) {
    constexpr int kTags = 7;
    constexpr int kPerTag = 6;
    const std::int64_t lengths[] = {0, 1, 5, 64, 1000, 30000};
    const auto length = [&](int from, int to, int tag, int k) {
        return lengths[(from + 2 * to + 3 * tag + 5 * k) % 6];
    };
    const auto content = [](int from, int to, int tag, int k, std::int64_t i) {
        return ((((from * 8 + to) * kTags + tag) * kPerTag + k) * std::int64_t{100000}) + i;
    };
    for (const int n : sizes(2))
        on_ranks(n, [&](Communicator& world) {
            struct Item {
                int peer, tag, k;
                std::vector<std::int64_t> data;
                Handle handle;
            };
            std::vector<Item> sends;
            std::vector<Item> receives;
            for (int peer = 0; peer < n; ++peer)
                for (int tag = 0; tag < kTags; ++tag)
                    for (int k = 0; k < kPerTag; ++k) {
                        if (peer == world.rank()) continue;
                        Item& s = sends.emplace_back(Item{peer, tag, k, {}, {}});
                        s.data.resize(static_cast<std::size_t>(length(world.rank(), peer, tag, k)));
                        for (std::size_t i = 0; i < s.data.size(); ++i)
                            s.data[i] = content(world.rank(), peer, tag, k, static_cast<std::int64_t>(i));
                        Item& r = receives.emplace_back(Item{peer, tag, k, {}, {}});
                        r.data.assign(static_cast<std::size_t>(length(peer, world.rank(), tag, k)), -1);
                    }
            // Orders differ from rank to rank; within (peer, tag) k must ascend, which sorting by a hash of (peer, tag)
            // keeps.
            const auto shuffled = [&](std::vector<Item>& items, std::uint64_t salt) {
                std::stable_sort(items.begin(), items.end(), [&](const Item& a, const Item& b) {
                    const RandomStream random(static_cast<std::uint64_t>(world.rank()), "order", salt);
                    return random.bits(static_cast<std::uint64_t>(a.peer * kTags + a.tag)) <
                           random.bits(static_cast<std::uint64_t>(b.peer * kTags + b.tag));
                });
            };
            shuffled(sends, 1);
            shuffled(receives, 2);
            for (std::size_t i = 0; i < sends.size(); ++i) {
                Item& s = sends[i];
                s.handle =
                    world.isend(s.data.data(), static_cast<std::int64_t>(s.data.size()), DType::i64, s.peer, s.tag);
                Item& r = receives[i];
                r.handle =
                    world.irecv(r.data.data(), static_cast<std::int64_t>(r.data.size()), DType::i64, r.peer, r.tag);
            }
            std::int64_t wrong = 0;
            for (auto r = receives.rbegin(); r != receives.rend(); ++r) {
                r->handle.wait();
                for (std::size_t i = 0; i < r->data.size(); ++i)
                    wrong += r->data[i] != content(r->peer, world.rank(), r->tag, r->k, static_cast<std::int64_t>(i))
                                 ? 1
                                 : 0;
            }
            for (Item& s : sends) s.handle.wait();
            EXPECT_EQ(wrong, 0);
        });
}

// Bytes counted where they move, against the program's price, for every operation and algorithm; the program's price is
// held against the closed formulas in program_test.
TEST(Bytes, WhatMovedIsWhatTheProgramSays) {
    for (const int n : sizes())
        for (const Operation operation : kCollectives)
            for (const Algorithm a : algorithms_for(operation, n))
                for (const DType dtype : {DType::f32, DType::bf16})
                    on_ranks(n, [&](Communicator& world) {
                        if (operation == Operation::barrier) return;
                        Spec spec{operation, a, n, n - 1, 0, {64 * n}};
                        if (!has_root(operation)) spec.root = 0;
                        const Program program = build_program(spec);
                        std::vector<std::byte> in(static_cast<std::size_t>(64 * n * n * 4));
                        std::vector<std::byte> out(in.size());
                        const void* from = operation == Operation::broadcast ? out.data() : in.data();
                        const Stats before = world.stats();
                        world.start(spec, from, out.data(), dtype).wait();
                        world.barrier().wait();
                        const Stats after = world.stats();
                        EXPECT_EQ(after.sent_by(operation) - before.sent_by(operation),
                                  program.bytes_sent(world.rank(), dtype))
                            << name_of(operation) << " " << name_of(a);
                        EXPECT_EQ(after.received_by(operation) - before.received_by(operation),
                                  program.bytes_received(world.rank(), dtype))
                            << name_of(operation) << " " << name_of(a);
                    });
}

TEST(Bytes, MessagesAreCountedOnceAtEachEnd) {
    for (const int n : sizes(2))
        on_ranks(n, [&](Communicator& world) {
            std::vector<float> x(100);
            if (world.rank() == 0) world.send(x.data(), 100, DType::f32, 1);
            if (world.rank() == 1) world.recv(x.data(), 100, DType::f32, 0);
            world.barrier().wait();
            const Stats s = world.stats();
            EXPECT_EQ(s.sent_by(Operation::send), world.rank() == 0 ? 400 : 0);
            EXPECT_EQ(s.received_by(Operation::recv), world.rank() == 1 ? 400 : 0);
            EXPECT_EQ(s.received_by(Operation::send) + s.sent_by(Operation::recv), 0);
        });
}

// A line that a rank logs after it has heard of another gets a higher number than the other's lines before: by a
// message and by a collective. (Threads share their numbers anyway.)
TEST(LogSequence, TravelsWithMessagesAndCollectives) {
    for (const int n : sizes(2))
        on_ranks(n, [&](Communicator& world) {
            std::int64_t number = 0;
            std::uint64_t told = 0;
            if (world.rank() == 0) {
                number = static_cast<std::int64_t>(last_sequence()) + 1000;
                observe_sequence(static_cast<std::uint64_t>(number));
                world.send(&number, 1, DType::i64, n - 1);
            } else if (world.rank() == n - 1) {
                world.recv(&number, 1, DType::i64, 0);
                EXPECT_GE(last_sequence(), static_cast<std::uint64_t>(number));
                told = static_cast<std::uint64_t>(number) + 1000;
                observe_sequence(told);
            }
            std::uint64_t most = 0;
            world.all_reduce(&told, &most, 1, DType::i64, ReduceOp::max).wait();
            EXPECT_GE(last_sequence(), most);
        });
}

// What ranks tell each other about a collective does not grow with its size.
TEST(Bytes, ControlTrafficDoesNotGrowWithTheMessage) {
    for (const int n : sizes(2))
        on_ranks(n, [&](Communicator& world) {
            std::vector<float> x(100000);
            std::vector<std::int64_t> control;
            for (const std::int64_t count : {1000, 100000}) {
                const std::int64_t before = world.stats().control_bytes;
                world.all_reduce(x.data(), x.data(), count, DType::f32, ReduceOp::sum).wait();
                control.push_back(world.stats().control_bytes - before);
            }
            EXPECT_EQ(control[0], control[1]);
        });
}

}  // namespace
}  // namespace cleave::comm::test
