#include <gtest/gtest.h>
#include "comm/launch.h"
using namespace cleave;
using namespace cleave::comm;
TEST(First, AllReduce) {
    for (int n = 1; n <= 8; ++n)
        for (auto a : {Algorithm::direct, Algorithm::tree, Algorithm::halving_doubling, Algorithm::ring})
            run_ranks({.ranks = n}, [&](Communicator& w) {
                std::vector<float> x(1000);
                for (int i = 0; i < 1000; ++i) x[size_t(i)] = float(w.rank() + i);
                for (int k = 0; k < 40; ++k) {
                    std::vector<float> y(1000);
                    w.all_reduce(x.data(), y.data(), 1000, DType::f32, ReduceOp::sum, a).wait();
                    for (int i = 0; i < 1000; ++i) ASSERT_EQ(y[size_t(i)], float(n * i + n * (n - 1) / 2));
                }
            });
}
TEST(First, Timeout) {
    try {
        run_ranks({.ranks = 3, .timeout = std::chrono::milliseconds(200)}, [&](Communicator& w) {
            float x = 1;
            if (w.rank() == 2) std::this_thread::sleep_for(std::chrono::seconds(1));
            w.all_reduce(&x, &x, 1, DType::f32, ReduceOp::sum).wait();
        });
        FAIL();
    } catch (RankFailure& e) {
        std::puts(e.what());
        EXPECT_EQ(e.rank(), 2);
    }
}
