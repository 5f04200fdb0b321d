// reduce_scatter into this rank's own piece of its input, and all_gather from this rank's own piece of its output: the
// bits of the same with buffers apart, by every algorithm, with equal and unequal pieces.
#include <cstring>
#include <numeric>

#include "ranks.h"

namespace cleave::comm::test {
namespace {

std::vector<std::vector<std::int64_t>> piece_lists(int n) {
    std::vector<std::vector<std::int64_t>> lists;
    for (const std::int64_t each : {1, 64, 4097}) lists.emplace_back(static_cast<std::size_t>(n), each);
    std::vector<std::int64_t> unequal;
    for (int r = 0; r < n; ++r) unequal.push_back(r % 3 == 1 ? 0 : 100 * r + 7);
    lists.push_back(unequal);
    return lists;
}

// None at all may have no place.
template <class T>
bool same_bits(const T* a, const T* b, std::size_t count) {
    return count == 0 || std::memcmp(a, b, count * sizeof(T)) == 0;
}

template <class T>
void expect_in_place(Communicator& world, const std::vector<std::int64_t>& counts, Algorithm algorithm) {
    const auto total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    const auto offset = std::accumulate(counts.begin(), counts.begin() + world.rank(), std::int64_t{0});
    const auto own = static_cast<std::size_t>(counts[static_cast<std::size_t>(world.rank())]);
    const DType dtype = dtype_of<T>();

    const std::vector<T> terms = input_of<T>(world.rank(), static_cast<int>(total));
    std::vector<T> sum(own);
    world.reduce_scatter(terms.data(), sum.data(), counts, dtype, ReduceOp::sum, algorithm).wait();
    std::vector<T> memory = terms;
    world.reduce_scatter(memory.data(), memory.data() + offset, counts, dtype, ReduceOp::sum, algorithm).wait();
    EXPECT_TRUE(same_bits(memory.data() + offset, sum.data(), own)) << "reduce_scatter by " << name_of(algorithm);

    std::vector<T> all(static_cast<std::size_t>(total));
    world.all_gather(sum.data(), all.data(), counts, dtype, algorithm).wait();
    world.all_gather(memory.data() + offset, memory.data(), counts, dtype, algorithm).wait();
    EXPECT_TRUE(same_bits(memory.data(), all.data(), all.size())) << "all_gather by " << name_of(algorithm);
}

TEST(InPlace, PiecesHaveTheBitsOfBuffersApart) {
    for (const int n : sizes())
        on_ranks(n, [&](Communicator& world) {
            for (const auto& counts : piece_lists(n))
                for (const Algorithm algorithm : algorithms_for(Operation::reduce_scatter, n)) {
                    if (algorithm == Algorithm::native) continue;  // MPI's own words for it are others
                    expect_in_place<float>(world, counts, algorithm);
                    expect_in_place<bf16>(world, counts, algorithm);
                }
        });
}

}  // namespace
}  // namespace cleave::comm::test
