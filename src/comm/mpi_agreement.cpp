#include "comm/mpi_agreement.h"

#include "base/error.h"
#include "base/log.h"

namespace cleave::comm {

MpiAgreement::MpiAgreement(MpiEndpoint& endpoint, const MpiGroup& group, const Fingerprint& own,
                           const std::vector<int>& to, const std::vector<int>& from, int tag)
    : group_(group), me_(endpoint.world_rank()), own_{own, last_sequence()} {
    if (!endpoint.fingerprints()) return;
    for (const int r : from) {
        Other& other = others_.emplace_back();
        other.rank = r;
        other.arrival.receive(&other.notice, sizeof(Notice), r, tag, group.collectives());
    }
    for (const int r : to) sends_.send(&own_, sizeof(Notice), r, tag, group.collectives());
    endpoint.count_control(static_cast<std::int64_t>(sizeof(Notice) * to.size()));
}

bool MpiAgreement::reached() {
    bool all = true;
    for (Other& other : others_) {
        if (other.arrived) continue;
        other.arrived = other.arrival.done();
        if (other.arrived) {
            compare(other.notice.fingerprint, other.rank);
            observe_sequence(other.notice.log_sequence);
        }
        all = all && other.arrived;
    }
    return all;
}

void MpiAgreement::compare(const Fingerprint& theirs, int other) const {
    if (theirs.hash == own().hash) return;
    const int them = group_.world_rank(other);
    throw RankFailure(them, fmt::format("ranks {} and {} disagree: rank {} calls {}, rank {} calls {}", me_, them, me_,
                                        to_string(own()), them, to_string(theirs)));
}

std::vector<int> MpiAgreement::absent() const {
    std::vector<int> ranks;
    for (const Other& other : others_)
        if (!other.arrived) ranks.push_back(other.rank);
    return ranks;
}

std::string absence(MpiEndpoint& endpoint, const MpiGroup& group, const std::vector<int>& absent, const char* what,
                    int& culprit) {
    std::string text;
    for (const int r : absent) {
        const int w = group.world_rank(r);
        if (text.empty()) culprit = w;
        text += fmt::format("{}rank {} {}{}", text.empty() ? "" : "; ", w, what,
                            endpoint.finished(w) ? " and has finished" : "");
    }
    return text;
}

void check_not_finished(MpiEndpoint& endpoint, const MpiGroup& group, const std::vector<int>& awaited,
                        const std::string& what) {
    for (const int r : awaited) {
        const int w = group.world_rank(r);
        if (endpoint.finished_for_good(w))
            throw RankFailure(
                w, fmt::format("rank {} has finished, but rank {} waits for it in {}", w, endpoint.world_rank(), what));
    }
}

int tag_of(std::uint64_t sequence, CollectiveTag kind) {
    constexpr std::uint64_t kInFlight = 1 << 20;
    return static_cast<int>(sequence % kInFlight * 4) + static_cast<int>(kind);
}

}  // namespace cleave::comm
