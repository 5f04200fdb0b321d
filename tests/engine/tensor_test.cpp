// Tensors: storage that is shared and given back, slices and relabelled pieces, and what the verbs refuse.
#include "engine/tensor.h"

#include <gtest/gtest.h>

#include "kernels/elementwise.h"
#include "ranks.h"

namespace cleave {
namespace {

TEST(Tensor, StorageGoesWithTheLastCopyWhateverItIsCalled) {
    const Mesh mesh({{"dp", 1}});
    test::on_ranks(mesh, [](CpuEngine& engine) {
        Tensor slice;
        {
            Tensor x = engine.alloc("x", {4, 6}, {}, DType::f64, MemoryKind::activations);
            EXPECT_TRUE(x.owns_storage_alone());
            const Tensor copy = x;
            EXPECT_EQ(copy.id(), x.id());
            EXPECT_FALSE(x.owns_storage_alone());
            slice = x.relabelled({{0, R}}).select(0, 2);
            EXPECT_NE(slice.id(), x.id());
        }
        EXPECT_EQ(engine.ledger().live(MemoryKind::activations), 4 * 6 * 8) << "the slice holds it";
        EXPECT_EQ(engine.allocator().live_bytes(), 4 * 6 * 8);
        slice = {};
        EXPECT_EQ(engine.ledger().live(), 0);
        EXPECT_EQ(engine.allocator().live_bytes(), 0);
    });
}

TEST(Tensor, ASelectedSliceHasTheElementsAndThePlacementsOfItsDims) {
    const Mesh mesh({{"dp", 2}});
    test::on_ranks(mesh, [](CpuEngine& engine) {
        const Layout layout{{0, S(2)}};
        const Tensor x =
            test::tensor_from(engine, {3, 2, 5}, layout, [](std::int64_t index) { return static_cast<double>(index); });
        const Tensor y = x.select(1, 1);
        EXPECT_EQ(y.shape(), (Shape{3, 5}));
        EXPECT_EQ(y.layout(), (Layout{{0, S(1)}}));
        EXPECT_EQ(y.storage(), x.storage());
        const std::int64_t columns = y.local_shape()[1];
        EXPECT_EQ(columns, engine.rank() == 0 ? 2 : 3);
        for (std::int64_t row = 0; row < 3; ++row)
            for (std::int64_t column = 0; column < columns; ++column) {
                const double* at = test::data_of(y) + row * y.view().strides[0] + column * y.view().strides[1];
                EXPECT_EQ(*at, static_cast<double>(row * 10 + 5 + y.view().offset[1] + column));
            }
    });
}

TEST(EngineDeathTest, RefusesWhatWouldReadOrWriteElsewhere) {
    const Mesh mesh({{"dp", 1}});
    const auto on_engine = [&](const std::function<void(CpuEngine&, const Tensor&)>& act) {
        test::on_ranks(mesh, [&](CpuEngine& engine) {
            act(engine, engine.alloc("x", {4}, {}, DType::f64, MemoryKind::activations));
        });
    };
    const std::vector<std::byte> bytes(24);
    EXPECT_DEATH(on_engine([&](CpuEngine& engine, const Tensor& x) { engine.write(x, bytes); }), "24 bytes written");
    EXPECT_DEATH(on_engine([](CpuEngine& engine, const Tensor& x) { engine.read(x, 0); }), "read of x");
    EXPECT_DEATH(on_engine([](CpuEngine& engine, const Tensor& x) { engine.slice_of(x, 2, "y", {3}, {}); }), "");
    EXPECT_DEATH(on_engine([](CpuEngine& engine, const Tensor& x) {
                     const auto pending = engine.start_transition(x, {{0, R}});
                     engine.finish(pending);
                     engine.finish(pending);
                 }),
                 "finished twice");
    EXPECT_DEATH(on_engine([](CpuEngine& engine, const Tensor& x) {
                     const Tensor partial = x.relabelled({{0, P}});
                     engine.launch(kernels::Add{}, {partial, x.relabelled({{0, R}})}, {partial});
                 }),
                 "refuses its inputs");
    EXPECT_DEATH(on_engine([](CpuEngine& engine, const Tensor& x) {
                     const Tensor partial = x.relabelled({{0, P}});
                     engine.launch(kernels::Add{}, {partial, partial}, {x.relabelled({{0, R}})});
                 }),
                 "but its rule gives");
}

}  // namespace
}  // namespace cleave
