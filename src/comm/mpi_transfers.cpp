#include "comm/mpi_transfers.h"

#include <algorithm>
#include <chrono>

#include "comm/mpi_session.h"

namespace cleave::comm {
namespace {

constexpr std::int64_t kPart = std::int64_t{1} << 30;

// Calls f(offset, bytes) for every part of a message; once for an empty one.
template <class F>
void for_each_part(std::int64_t bytes, F&& f) {
    std::int64_t offset = 0;
    do {
        f(offset, static_cast<int>(std::min(kPart, bytes - offset)));
        offset += kPart;
    } while (offset < bytes);
}

bool all_done(std::vector<MPI_Request>& requests) {
    if (requests.empty()) return true;
    int flag = 0;
    check_mpi(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &flag, MPI_STATUSES_IGNORE),
              "MPI_Testall");
    if (flag != 0) requests.clear();
    return flag != 0;
}

}  // namespace

void MpiTransfers::send(const void* data, std::int64_t bytes, int peer, int tag, MPI_Comm comm, bool synchronous) {
    for_each_part(bytes, [&](std::int64_t offset, int part) {
        const auto issue = synchronous ? MPI_Issend : MPI_Isend;
        const auto* from = static_cast<const std::byte*>(data) + offset;
        check_mpi(issue(from, part, MPI_BYTE, peer, tag, comm, &sends_.emplace_back(MPI_REQUEST_NULL)), "MPI_Isend");
    });
}

void MpiTransfers::receive(void* data, std::int64_t bytes, int peer, int tag, MPI_Comm comm) {
    for_each_part(bytes, [&](std::int64_t offset, int part) {
        auto* to = static_cast<std::byte*>(data) + offset;
        check_mpi(MPI_Irecv(to, part, MPI_BYTE, peer, tag, comm, &receives_.emplace_back(MPI_REQUEST_NULL)),
                  "MPI_Irecv");
    });
}

bool MpiTransfers::done() {
    const bool received = all_done(receives_);
    return all_done(sends_) && received;
}

void MpiTransfers::abandon() {
    for (MPI_Request& r : sends_)
        if (r != MPI_REQUEST_NULL) MPI_Request_free(&r);
    for (MPI_Request& r : receives_)
        if (r != MPI_REQUEST_NULL) MPI_Cancel(&r);
    // A receive already matched is not cancelled but completes; not for ever, should its sender have died.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    int flag = receives_.empty() ? 1 : 0;
    while (flag == 0 && std::chrono::steady_clock::now() < deadline)
        MPI_Testall(static_cast<int>(receives_.size()), receives_.data(), &flag, MPI_STATUSES_IGNORE);
}

}  // namespace cleave::comm
