// Programs already made, so that a repeated call costs a look-up only.
// Thread rule: one cache a communicator and rank, used by that rank's thread.
#pragma once

#include <memory>
#include <unordered_map>

#include "comm/program.h"

namespace cleave::comm {

struct PreparedProgram {
    Program program;
    Schedule schedule;  // points into program
};

class ProgramCache {
  public:
    explicit ProgramCache(int rank) : rank_(rank) {}
    // Builds and checks on a miss (UserError). What is returned stays valid as long as it is held.
    std::shared_ptr<const PreparedProgram> get(const Spec& spec);

  private:
    const int rank_;
    std::unordered_multimap<std::uint64_t, std::shared_ptr<const PreparedProgram>> programs_;
};

}  // namespace cleave::comm
