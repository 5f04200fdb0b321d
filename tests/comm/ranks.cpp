#include "ranks.h"

#include "comm/mpi_session.h"

namespace cleave::comm::test {

std::vector<int> sizes(int smallest) {
    std::vector<int> list;
    if (under_mpirun()) {
        const int n = MpiSession::get().size();
        return n >= smallest ? std::vector{n} : list;
    }
    for (int n = smallest; n <= 8; ++n) list.push_back(n);
    return list;
}

void on_ranks(int n, const std::function<void(Communicator&)>& f) {
    try {
        run_ranks({.ranks = n, .timeout = std::chrono::seconds(60)}, f);
    } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
    }
}

RankFailure failure_of(int n, Duration timeout, const std::function<void(Communicator&)>& f) {
    try {
        run_ranks({.ranks = n, .timeout = timeout}, f);
    } catch (const RankFailure& failure) {
        return failure;
    } catch (const std::exception& error) {
        return RankFailure(-2, std::string("not a rank failure: ") + error.what());
    }
    ADD_FAILURE() << "no rank failed";
    return RankFailure(-3, "no rank failed");
}

std::vector<Algorithm> algorithms_for(Operation operation, int n) {
    std::vector<Algorithm> list;
    for (const Algorithm a : kProgramAlgorithms)
        if (supports(a, operation, n)) list.push_back(a);
    return list;
}

}  // namespace cleave::comm::test
