// Messages between the ranks of an axis: what arrives, what both engines record, what is refused.
#include <gtest/gtest.h>

#include "engine/virtual_engine.h"
#include "ranks.h"

namespace cleave {
namespace {

const Mesh& pipeline_mesh() {
    static const Mesh mesh({{"pp", 3}, {"dp", 2}});
    return mesh;
}

double message_value(std::int64_t index, int sender, int tag) {
    return static_cast<double>(index) + 100.0 * sender + 10000.0 * tag;
}

// Around the ring of stages, two messages each way, the later one received first.
void exchange_around(Engine& engine, const std::function<Tensor(int)>& make) {
    const AxisId pp = engine.mesh().axis("pp");
    const int own = engine.mesh().coordinate(engine.rank(), pp);
    const int next = (own + 1) % 3;
    const int before = (own + 2) % 3;
    const Tensor first = make(1);
    const Tensor second = make(2);
    const Tensor into_first = engine.alloc("first", first.shape(), {}, DType::f64, MemoryKind::activations);
    const Tensor into_second = engine.alloc("second", first.shape(), {}, DType::f64, MemoryKind::activations);
    const auto receive_second = engine.start_receive(into_second, {pp, before, 2});
    const auto receive_first = engine.start_receive(into_first, {pp, before, 1});
    const auto send_first = engine.start_send(first, {pp, next, 1});
    const auto send_second = engine.start_send(second, {pp, next, 2});
    for (const auto& pending : {send_second, receive_second, receive_first, send_first}) engine.finish(pending);
    if (engine.is_virtual()) return;
    const int sender = engine.mesh().group(engine.rank(), {pp})[static_cast<std::size_t>(before)];
    for (std::int64_t i = 0; i < into_first.view().elements(); ++i) {
        EXPECT_EQ(test::data_of(into_first)[i], message_value(i, sender, 1));
        EXPECT_EQ(test::data_of(into_second)[i], message_value(i, sender, 2));
    }
}

Tensor message_of(Engine& engine, int tag) {
    return test::tensor_from(engine, {3, 5}, {},
                             [&](std::int64_t index) { return message_value(index, engine.rank(), tag); });
}

TEST(Messages, GoToTheRankThatDiffersInOneCoordinateByTag) {
    test::on_ranks(pipeline_mesh(), [](CpuEngine& engine) {
        exchange_around(engine, [&](int tag) { return message_of(engine, tag); });
    });
}

TEST(Messages, BothEnginesRecordTheSame) {
    std::vector<std::vector<Event>> executed(6);
    test::on_ranks(pipeline_mesh(), [&](CpuEngine& engine) {
        engine.trace().start();
        exchange_around(engine, [&](int tag) { return message_of(engine, tag); });
        executed[static_cast<std::size_t>(engine.rank())] = engine.trace().events();
    });
    for (int rank = 0; rank < 6; ++rank) {
        VirtualEngine engine(pipeline_mesh(), rank, comm::TransportKind::inproc, 1);
        engine.trace().start();
        exchange_around(engine, [&](int) {
            return engine.alloc("x", {3, 5}, {}, DType::f64, MemoryKind::activations);
        });
        const auto& planned = engine.trace().events();
        const auto& seen = executed[static_cast<std::size_t>(rank)];
        ASSERT_EQ(planned.size(), seen.size());
        for (std::size_t i = 0; i < seen.size(); ++i) {
            EXPECT_EQ(planned[i].name, seen[i].name);
            EXPECT_EQ(planned[i].detail, seen[i].detail);
            EXPECT_EQ(planned[i].bytes, seen[i].bytes);
            EXPECT_EQ(planned[i].placement, seen[i].placement);
            EXPECT_EQ(planned[i].live_bytes, seen[i].live_bytes);
        }
        EXPECT_EQ(seen[2].bytes, 15 * 8) << "what a send moves is counted with it";
        EXPECT_EQ(seen[2].placement, fmt::format("to pp={}", (rank / 2 + 1) % 3));
    }
}

TEST(MessagesDeathTest, ToItselfAreABug) {
    const Mesh mesh({{"pp", 2}});
    VirtualEngine engine(mesh, 0, comm::TransportKind::inproc, 1);
    const Tensor x = engine.alloc("x", {2}, {}, DType::f64, MemoryKind::activations);
    EXPECT_DEATH(engine.start_send(x, {0, 0, 0}), "a message of x between 0 and 0 along pp");
}

}  // namespace
}  // namespace cleave
