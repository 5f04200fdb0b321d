// The engine without storage: programs that no machine could hold, scalars that the program states, and accounts equal
// to those of the engine that executes (whole steps: tests/agreement).
#include "engine/virtual_engine.h"

#include <gtest/gtest.h>

#include "engine/functions.h"
#include "ranks.h"

namespace cleave {
namespace {

TEST(VirtualEngine, HoldsWhatNoMachineCould) {
    const Mesh mesh({{"dp", 1024}});
    VirtualEngine engine(mesh, 1023, comm::TransportKind::inproc, 1);
    EXPECT_TRUE(engine.is_virtual());
    constexpr std::int64_t kSide = 1 << 20;  // 4 TiB in f32
    {
        const Tensor x = engine.alloc("x", {kSide, kSide}, {}, DType::f32, MemoryKind::parameters);
        const Tensor cut = engine.alloc("cut", {kSide, kSide}, {{0, S(0)}}, DType::f32, MemoryKind::parameters);
        EXPECT_EQ(x.view().bytes(), kSide * kSide * 4);
        EXPECT_EQ(cut.local_shape(), (Shape{kSide / 1024, kSide}));
        EXPECT_EQ(engine.ledger().live(MemoryKind::parameters), kSide * kSide * 4 + kSide * kSide * 4 / 1024);
        EXPECT_EQ(engine.allocator().live_bytes(), engine.ledger().live());
    }
    EXPECT_EQ(engine.ledger().live(), 0);
    EXPECT_EQ(engine.ledger().peak(), kSide * kSide * 4 + kSide * kSide * 4 / 1024);
    engine.reset_peaks();
    EXPECT_EQ(engine.ledger().peak(), 0);
    EXPECT_EQ(engine.allocator().peak_extent(), 0);
}

TEST(VirtualEngine, AReadGivesWhatTheProgramStatesAndBytesAreZero) {
    const Mesh mesh({{"dp", 1}});
    VirtualEngine engine(mesh, 0, comm::TransportKind::inproc, 1);
    const Tensor scalar = engine.alloc("norm", {}, {}, DType::f64, MemoryKind::workspace);
    const double written = 7;
    engine.trace().start();
    engine.write(scalar, std::as_bytes(std::span(&written, 1)));
    EXPECT_EQ(engine.read(scalar, 0.25), 0.25);
    double bytes = 1;
    engine.read_bytes(scalar, std::as_writable_bytes(std::span(&bytes, 1)));
    EXPECT_EQ(bytes, 0);
    ASSERT_EQ(engine.trace().events().size(), 3U);
    EXPECT_EQ(engine.trace().events()[0].type, EventType::write);
    EXPECT_EQ(engine.trace().events()[1].type, EventType::read);
    EXPECT_EQ(engine.trace().events()[1].end, 0) << "the virtual engine knows no times";
}

// Every kind of transition, also those that pack, sends the bytes that the transport counts.
TEST(VirtualEngine, TransitionsSendTheBytesThatTheTransportCounts) {
    const Mesh mesh({{"dp", 3}});
    const Shape shape{9, 11, 8};
    for (Placement from : {R, I, P, S(0), S(1), S(2)})
        for (Placement to : {R, I, P, S(0), S(1), S(2)}) {
            std::vector<std::int64_t> counted(3);
            std::vector<std::int64_t> peaks(3);
            test::on_ranks(mesh, [&](CpuEngine& engine) {
                engine.transition(test::tensor_from(engine, shape, {{0, from}}, [](std::int64_t) { return 1.0; }),
                                  {{0, to}});
                const comm::Stats stats = engine.world().stats();
                for (auto bytes : stats.sent) counted[static_cast<std::size_t>(engine.rank())] += bytes;
                peaks[static_cast<std::size_t>(engine.rank())] = engine.allocator().peak_live_bytes();
            });
            for (int rank = 0; rank < 3; ++rank) {
                VirtualEngine engine(mesh, rank, comm::TransportKind::inproc, 1);
                engine.trace().start();
                engine.transition(engine.alloc("x", shape, {{0, from}}, DType::f64, MemoryKind::activations),
                                  {{0, to}});
                std::int64_t planned = 0;
                for (const Event& event : engine.trace().events())
                    if (event.type == EventType::issue) planned += event.bytes;
                EXPECT_EQ(planned, counted[static_cast<std::size_t>(rank)]) << to_string(from) << to_string(to);
                EXPECT_EQ(engine.ledger().peak(), peaks[static_cast<std::size_t>(rank)])
                    << to_string(from) << to_string(to);
            }
        }
}

}  // namespace
}  // namespace cleave
