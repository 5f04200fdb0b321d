#include "comm/mpi_meeting.h"

#include "base/error.h"
#include "base/hash.h"
#include "comm/mpi_agreement.h"

namespace cleave::comm {

MpiMeeting::MpiMeeting(MpiEndpoint& endpoint, const MpiGroup& parent, std::span<const int> ranks)
    : endpoint_(endpoint),
      parent_(parent),
      own_{hash64(std::as_bytes(ranks)), static_cast<std::int64_t>(ranks.size())} {
    for (const int r : ranks) world_ranks_.push_back(parent.world_rank(r));
    // One tag for all meetings: two ranks make the groups they share in one order, or they would wait for each other.
    const int tag = tag_of(0, CollectiveTag::meeting);
    for (const int r : ranks) {
        if (r == parent.rank()) continue;
        Other& other = others_.emplace_back();
        other.rank = r;
        other.arrival.receive(&other.notice, sizeof(Notice), r, tag, parent.collectives());
        sends_.send(&own_, sizeof(Notice), r, tag, parent.collectives());
        endpoint.count_control(sizeof(Notice));
    }
}

bool MpiMeeting::advance() {
    bool all = true;
    for (Other& other : others_) {
        if (!other.arrived && other.arrival.done()) {
            other.arrived = true;
            compare(other);
        }
        all = all && other.arrived;
    }
    return sends_.done() && all;
}

void MpiMeeting::compare(const Other& other) const {
    if (other.notice.ranks_hash == own_.ranks_hash && other.notice.ranks == own_.ranks) return;
    const int me = endpoint_.world_rank();
    const int them = parent_.world_rank(other.rank);
    throw RankFailure(them, fmt::format("ranks {} and {} disagree: rank {} calls {}, rank {} makes another one, of {}",
                                        me, them, me, describe(), them, other.notice.ranks));
}

std::string MpiMeeting::describe() const {
    return "group()" + of_ranks(world_ranks_);
}

std::vector<int> MpiMeeting::absent() const {
    std::vector<int> ranks;
    for (const Other& other : others_)
        if (!other.arrived) ranks.push_back(other.rank);
    return ranks;
}

std::string MpiMeeting::waiting_for(int& culprit) const {
    return absence(endpoint_, parent_, absent(), "has not arrived", culprit);
}

void MpiMeeting::check_possible() const {
    check_not_finished(endpoint_, parent_, absent(), describe());
}

}  // namespace cleave::comm
