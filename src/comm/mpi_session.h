// MPI as a whole: initialised at the first use (only under mpirun), finalised when the process ends.
// Thread rule: the main thread only (MPI_THREAD_FUNNELED).
#pragma once

#include <mpi.h>

namespace cleave::comm {

class MpiSession {
  public:
    static bool available();  // a launcher started this process; does not initialise MPI
    static MpiSession& get();

    int rank() const { return rank_; }
    int size() const { return size_; }
    // How the last run ended. If it failed, the process ends by MPI_Abort with this exit code: another rank may be
    // computing for ever and would keep MPI_Finalize from returning.
    void set_outcome(int exit_code) { exit_code_ = exit_code; }

    MpiSession(const MpiSession&) = delete;
    MpiSession& operator=(const MpiSession&) = delete;

  private:
    MpiSession();
    ~MpiSession();
    int rank_ = 0;
    int size_ = 1;
    int exit_code_ = 0;
};

// Throws RankFailure with MPI's own text if `code` is an error.
void check_mpi(int code, const char* call);

}  // namespace cleave::comm
