// A set of MPI sends and receives that complete together. Messages above 1 GiB go in several parts, because MPI counts
// are int.
// Thread rule: belongs to one rank.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <vector>

namespace cleave::comm {

class MpiTransfers {
  public:
    MpiTransfers() = default;
    MpiTransfers(const MpiTransfers&) = delete;
    MpiTransfers& operator=(const MpiTransfers&) = delete;
    ~MpiTransfers() { abandon(); }

    // `synchronous`: complete only once the receiver has taken it.
    void send(const void* data, std::int64_t bytes, int peer, int tag, MPI_Comm comm, bool synchronous = false);
    void receive(void* data, std::int64_t bytes, int peer, int tag, MPI_Comm comm);
    bool done();  // true once all are complete, and then the set is empty

  private:
    // After a failure: receives are cancelled, so that nobody writes into memory that is given back. Sends are
    // forgotten.
    void abandon();
    std::vector<MPI_Request> sends_;
    std::vector<MPI_Request> receives_;
};

}  // namespace cleave::comm
