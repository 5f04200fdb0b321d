// Which rank must have done what before a rank may take a step: from the elements that moves touch.
#include <algorithm>

#include "comm/program.h"

namespace cleave::comm {
namespace {

// One access of a step to elements [begin, end) of a buffer that belongs to `owner`.
struct Touch {
    int executor;
    std::uint32_t step;
    Buffer buffer;
    std::int64_t begin, end;
    bool write;
};

// in and out of one rank may be the same memory (all_reduce and reduce work in place).
bool same_memory(Buffer a, Buffer b) {
    return (a == Buffer::scratch) == (b == Buffer::scratch);
}

bool conflict(const Touch& a, const Touch& b) {
    return a.executor != b.executor && (a.write || b.write) && same_memory(a.buffer, b.buffer) && a.begin < b.end &&
           b.begin < a.end;
}

class Needs {
  public:
    explicit Needs(int ranks) : progress_(static_cast<std::size_t>(ranks), 0) {}
    void add(int rank, std::uint32_t progress) {
        auto& p = progress_[static_cast<std::size_t>(rank)];
        p = std::max(p, progress);
    }
    bool on(int rank) const { return progress_[static_cast<std::size_t>(rank)] > 0; }
    std::vector<Need> list() const {
        std::vector<Need> needs;
        for (std::size_t r = 0; r < progress_.size(); ++r)
            if (progress_[r] > 0) needs.push_back({static_cast<int>(r), progress_[r]});
        return needs;
    }

  private:
    std::vector<std::uint32_t> progress_;
};

// The schedules of all ranks at once: who watches whom is only known from all of them.
struct AllSchedules {
    struct Rank {
        std::vector<Needs> needs;                     // of each step
        std::vector<std::vector<const Move*>> moves;  // of each step
    };
    const int size;
    std::vector<Rank> ranks;
    std::vector<Needs> completion;
    std::vector<std::vector<Touch>> touches;  // [owner], phases in order

    explicit AllSchedules(const Program& program)
        : size(program.spec.size),
          ranks(static_cast<std::size_t>(size)),
          completion(static_cast<std::size_t>(size), Needs(size)),
          touches(static_cast<std::size_t>(size)) {
        for (const Phase& phase : program.phases) add(phase);
    }

    void add(const Phase& phase) {
        std::vector<std::vector<Touch>> now(static_cast<std::size_t>(size));
        std::vector<bool> has_step(static_cast<std::size_t>(size), false);
        for (const Move& move : phase) {
            Rank& rank = ranks[static_cast<std::size_t>(move.executor)];
            if (!has_step[static_cast<std::size_t>(move.executor)]) {
                has_step[static_cast<std::size_t>(move.executor)] = true;
                rank.moves.emplace_back();
                rank.needs.emplace_back(size);
            }
            rank.moves.back().push_back(&move);
            const auto step = static_cast<std::uint32_t>(rank.moves.size() - 1);
            for (const Slot& s : move.sources) touch(now, move, s, step, false);
            for (const Slot& d : move.destinations) touch(now, move, d, step, true);
        }
        for (std::size_t owner = 0; owner < now.size(); ++owner)
            touches[owner].insert(touches[owner].end(), now[owner].begin(), now[owner].end());
    }

    void touch(std::vector<std::vector<Touch>>& now, const Move& move, const Slot& slot, std::uint32_t step,
               bool write) {
        const auto owner = static_cast<std::size_t>(slot.rank);
        const Touch t{move.executor, step, slot.buffer, slot.offset, slot.offset + move.count, write};
        Needs& needs = ranks[static_cast<std::size_t>(move.executor)].needs.back();
        for (const Touch& before : touches[owner])
            if (conflict(before, t)) needs.add(before.executor, before.step + 2);
        if (slot.rank != move.executor) {
            needs.add(slot.rank, 1);
            if (move.count > 0) completion[owner].add(move.executor, step + 2);
        }
        now[owner].push_back(t);
    }

    bool watches(int watcher, int rank) const {
        const auto& own = ranks[static_cast<std::size_t>(watcher)].needs;
        return completion[static_cast<std::size_t>(watcher)].on(rank) ||
               std::any_of(own.begin(), own.end(), [&](const Needs& n) { return n.on(rank); });
    }
};

}  // namespace

Schedule schedule_of(const Program& program, int rank) {
    AllSchedules all(program);
    Schedule schedule;
    auto& own = all.ranks[static_cast<std::size_t>(rank)];
    for (std::size_t s = 0; s < own.moves.size(); ++s) schedule.steps.push_back({own.moves[s], own.needs[s].list()});
    schedule.completion = all.completion[static_cast<std::size_t>(rank)].list();
    for (int w = 0; w < program.spec.size; ++w)
        if (w != rank && all.watches(w, rank)) schedule.watchers.push_back(w);
    return schedule;
}

}  // namespace cleave::comm
