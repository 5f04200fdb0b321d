#include "comm/mpi_session.h"

#include <cstdlib>
#include <string>

#include "base/error.h"

namespace cleave::comm {

bool MpiSession::available() {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE"})
        if (std::getenv(name) != nullptr) return true;
    return false;
}

MpiSession& MpiSession::get() {
    static MpiSession session;
    return session;
}

MpiSession::MpiSession() {
    int provided = 0;
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    CLEAVE_CHECK(provided >= MPI_THREAD_FUNNELED);
    check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
}

MpiSession::~MpiSession() {
    if (exit_code_ != 0) MPI_Abort(MPI_COMM_WORLD, exit_code_);
    MPI_Finalize();
}

void check_mpi(int code, const char* call) {
    if (code == MPI_SUCCESS) return;
    std::string text(MPI_MAX_ERROR_STRING, ' ');
    int length = 0;
    MPI_Error_string(code, text.data(), &length);
    text.resize(static_cast<std::size_t>(length));
    throw RankFailure(-1, fmt::format("{}: {}", call, text));
}

}  // namespace cleave::comm
