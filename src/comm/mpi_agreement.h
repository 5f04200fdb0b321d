// The exchange of fingerprints before a collective. The number of the sender's last log line travels along, so that
// lines of different processes can be merged in an order in which none stands before one it depends on (base/log.h).
// Thread rule: belongs to one rank.
#pragma once

#include <vector>

#include "comm/mpi.h"

namespace cleave::comm {

class MpiAgreement {
  public:
    // Sends `own` to the ranks `to` and expects those of `from` (ranks of the group).
    MpiAgreement(MpiEndpoint& endpoint, const MpiGroup& group, const Fingerprint& own, const std::vector<int>& to,
                 const std::vector<int>& from, int tag);
    MpiAgreement(const MpiAgreement&) = delete;
    MpiAgreement& operator=(const MpiAgreement&) = delete;

    bool reached();  // all have arrived and agree; throws RankFailure if one disagrees
    bool sent() { return sends_.done(); }
    const Fingerprint& own() const { return own_.fingerprint; }
    std::vector<int> absent() const;  // ranks of the group

  private:
    struct Notice {  // as it is sent
        Fingerprint fingerprint;
        std::uint64_t log_sequence = 0;
    };
    struct Other {
        int rank;
        Notice notice;
        MpiTransfers arrival;
        bool arrived = false;
    };
    void compare(const Fingerprint& theirs, int other) const;

    const MpiGroup& group_;
    const int me_;
    const Notice own_;
    std::list<Other> others_;
    MpiTransfers sends_;
};

// "rank 2 has not arrived; rank 3 has not arrived and has finished". `culprit` receives the first world rank.
std::string absence(MpiEndpoint& endpoint, const MpiGroup& group, const std::vector<int>& absent, const char* what,
                    int& culprit);
// Throws RankFailure if one of `awaited` has finished.
void check_not_finished(MpiEndpoint& endpoint, const MpiGroup& group, const std::vector<int>& awaited,
                        const std::string& what);

// Tags of one collective's messages: several may be in flight in one group.
enum class CollectiveTag : int { fingerprint, source, result, meeting };
int tag_of(std::uint64_t sequence, CollectiveTag kind);

}  // namespace cleave::comm
