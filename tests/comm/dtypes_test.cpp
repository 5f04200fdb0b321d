// The capability table of the collectives: every dtype, reduction, root and count, by every algorithm, on this
// transport.
#include <cstring>

#include "ranks.h"

namespace cleave::comm::test {
namespace {

template <class T>
void expect_reduced(const std::vector<T>& result, ReduceOp op, int n, std::int64_t first, Algorithm a) {
    for (std::size_t i = 0; i < result.size(); ++i) {
        const T expected = reference<T>(op, n, first + static_cast<std::int64_t>(i));
        const bool exact =
            follows_canonical_order(a) || std::is_integral_v<T> || op == ReduceOp::max || op == ReduceOp::min;
        if (exact) {
            if (std::memcmp(&result[i], &expected, sizeof(T)) != 0)
                ADD_FAILURE() << "element " << i << " by " << name_of(a);
        } else {
            const double tolerance = sizeof(T) == 8 ? 1e-9 : sizeof(T) == 4 ? 0.02 : 64.0;
            EXPECT_NEAR(static_cast<double>(static_cast<accumulator_t<T>>(result[i])),
                        static_cast<double>(static_cast<accumulator_t<T>>(expected)), tolerance);
        }
    }
}

// The capability table: every dtype and reduction, by every algorithm, on this transport. Integer avg of a wrapped sum
// depends on the order for no algorithm, because wrapped sums do not.
template <class T>
void reduce_everything(Communicator& world, Algorithm a, bool is_native) {
    const int n = world.size();
    const std::int64_t piece = 37;
    const std::int64_t total = piece * n;
    const DType dtype = dtype_of<T>();
    const auto input = input_of<T>(world.rank(), total);
    auto x = input;
    for (const ReduceOp op : kReduceOps) {
        SCOPED_TRACE(std::string(name_of(dtype)) + " " + std::string(name_of(op)) + " " + std::string(name_of(a)));
        std::vector<T> y(x.size());
        if (is_native || supports(a, Operation::all_reduce, n)) {
            world.all_reduce(x.data(), y.data(), total, dtype, op, a).wait();
            expect_reduced(y, op, n, 0, a);
            EXPECT_TRUE(same_bits(x, input)) << "the input was written";
            world.all_reduce(x.data(), x.data(), total, dtype, op, a).wait();
            EXPECT_TRUE(same_bits(x, y)) << "in place differs";
            x = input;
        }
        if (is_native || supports(a, Operation::reduce_scatter, n)) {
            std::vector<T> part(static_cast<std::size_t>(piece));
            world.reduce_scatter(x.data(), part.data(), piece, dtype, op, a).wait();
            expect_reduced(part, op, n, piece * world.rank(), a);
            EXPECT_TRUE(same_bits(x, input)) << "the input was written";
        }
        if (is_native || supports(a, Operation::reduce, n)) {
            const int root = n - 1;
            std::vector<T> z(x.size(), T{});
            world.reduce(x.data(), z.data(), total, dtype, op, root, a).wait();
            if (world.rank() == root) expect_reduced(z, op, n, 0, a);
            EXPECT_TRUE(same_bits(x, input)) << "the input was written";
        }
    }
}

TEST(Collectives, EveryDTypeReductionAndAlgorithm) {
    for (const int n : sizes())
        on_ranks(n, [&](Communicator& world) {
            for (const DType dtype : kAllDTypes)
                for (const Algorithm a : algorithms_for(Operation::all_reduce, n))
                    dispatch(dtype, [&](auto element) { reduce_everything<decltype(element)>(world, a, false); });
        });
}

template <class T>
void move_everything(Communicator& world, Algorithm a) {
    const int n = world.size();
    const DType dtype = dtype_of<T>();
    const auto x = input_of<T>(world.rank(), 3 * n);
    std::vector<T> y(x.size());
    std::vector<T> whole;
    for (int r = 0; r < n; ++r) {
        const auto part = input_of<T>(r, 3);
        whole.insert(whole.end(), part.begin(), part.end());
    }
    world.all_gather(x.data(), y.data(), 3, dtype, a).wait();
    EXPECT_TRUE(same_bits(y, whole));
    std::vector<T> b = x;
    world.broadcast(b.data(), 3 * n, dtype, n - 1, a).wait();
    EXPECT_TRUE(same_bits(b, input_of<T>(n - 1, 3 * n)));
    std::vector<T> piece(3);
    world.scatter(b.data(), piece.data(), 3, dtype, 0, a).wait();
    std::vector<T> joined(b.size());
    world.gather(piece.data(), joined.data(), 3, dtype, 0, a).wait();
    if (world.rank() == 0) {
        EXPECT_TRUE(same_bits(joined, b));
    }
    std::vector<T> z(x.size());
    world.all_to_all(x.data(), y.data(), 3, dtype, a).wait();
    world.all_to_all(y.data(), z.data(), 3, dtype, a).wait();
    EXPECT_TRUE(same_bits(z, x));
    world.barrier(a).wait();
}

TEST(Collectives, EveryDTypeMoves) {
    for (const int n : sizes())
        on_ranks(n, [&](Communicator& world) {
            for (const DType dtype : kAllDTypes)
                dispatch(dtype, [&](auto element) { move_everything<decltype(element)>(world, Algorithm::direct); });
        });
}

TEST(Collectives, NativeDoesEverythingOnMpiAndIsRefusedElsewhere) {
    for (const int n : sizes(2))
        on_ranks(n, [&](Communicator& world) {
            if (world.transport() == TransportKind::inproc) {
                float x = 1;
                EXPECT_THROW(world.all_reduce(&x, &x, 1, DType::f32, ReduceOp::sum, Algorithm::native).wait(),
                             UserError);
                return;
            }
            for (const DType dtype : kAllDTypes)
                dispatch(dtype, [&](auto element) {
                    using T = decltype(element);
                    if (n > 1) reduce_everything<T>(world, Algorithm::native, true);
                    move_everything<T>(world, Algorithm::native);
                });
        });
}

}  // namespace
}  // namespace cleave::comm::test
