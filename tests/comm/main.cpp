// The tests' own main: under mpirun rank 0 reports, the others report failures only, and every rank's verdict counts.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string_view>

#include "comm/launch.h"
#include "comm/mpi_session.h"
#include "ranks.h"

namespace {

class FailuresOnly : public testing::EmptyTestEventListener {
    void OnTestPartResult(const testing::TestPartResult& result) override {
        if (!result.failed()) return;
        std::fprintf(stderr, "rank %d: %s:%d: %s\n", cleave::comm::MpiSession::get().rank(),
                     result.file_name() != nullptr ? result.file_name() : "?", result.line_number(), result.summary());
    }
};

}  // namespace

int main(int argc, char** argv) {
    if (argc == 3 && std::string_view(argv[1]) == "--die-in") return cleave::comm::test::die_in(argv[2]);
    testing::InitGoogleTest(&argc, argv);
    if (cleave::comm::under_mpirun() && cleave::comm::MpiSession::get().rank() > 0) {
        auto& listeners = testing::UnitTest::GetInstance()->listeners();
        delete listeners.Release(listeners.default_result_printer());
        delete listeners.Release(listeners.default_xml_generator());
        listeners.Append(new FailuresOnly);
    }
    return RUN_ALL_TESTS();
}
