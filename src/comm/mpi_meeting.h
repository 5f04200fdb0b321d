// The meeting of the ranks that make a group. MPI makes a group in a blocking call that knows no timeout, so it is
// called only once every member is known to come; until then a meeting is waited for like any other operation. Thread
// rule: belongs to one rank.
#pragma once

#include <list>
#include <span>
#include <vector>

#include "comm/mpi.h"

namespace cleave::comm {

class MpiMeeting final : public Request {
  public:
    // `ranks` of `parent`, this rank among them.
    MpiMeeting(MpiEndpoint& endpoint, const MpiGroup& parent, std::span<const int> ranks);
    bool advance() override;  // throws RankFailure if another member makes another group
    std::string describe() const override;
    std::string waiting_for(int& culprit) const override;
    void check_possible() const override;

  private:
    struct Notice {  // as it is sent
        std::uint64_t ranks_hash = 0;
        std::int64_t ranks = 0;
    };
    struct Other {
        int rank;
        Notice notice;
        MpiTransfers arrival;
        bool arrived = false;
    };
    void compare(const Other& other) const;
    std::vector<int> absent() const;

    MpiEndpoint& endpoint_;
    const MpiGroup& parent_;
    std::vector<int> world_ranks_;  // of the group to be
    const Notice own_;
    std::list<Other> others_;
    MpiTransfers sends_;
};

}  // namespace cleave::comm
