#include "comm/inproc_collective.h"

#include <algorithm>

namespace cleave::comm {
namespace {}  // namespace

InprocCollective::InprocCollective(InprocEndpoint& endpoint, InprocGroupState& group,
                                   std::shared_ptr<InprocGroupState::Chunk> chunk, int rank, std::uint64_t sequence,
                                   const Collective& call)
    : endpoint_(endpoint),
      group_(group),
      chunk_(std::move(chunk)),
      first_entry_(
          &chunk_->entries[sequence % group.places * static_cast<std::size_t>(group.size())]),
      rank_(rank),
      call_(call),
      scratch_(endpoint.scratch().take(call.program->scratch_elements * element_bytes(Buffer::scratch, call.dtype))),
      streaming_(endpoint.world().exceeds_cache(call.program->total_elements * size_of(call.dtype))) {
    Entry& e = own();
    e.in = static_cast<const std::byte*>(call.in);
    e.out = static_cast<std::byte*>(call.out);
    e.scratch = scratch_.data;
    e.fingerprint = fingerprint_of(*call.spec, call.dtype, call.op, sequence);
    publish(1);
}

InprocCollective::~InprocCollective() {
    endpoint_.scratch().give_back(scratch_);
}

void InprocCollective::publish(std::uint32_t progress) {
    own().progress.store(progress, std::memory_order_seq_cst);  // before the look at who sleeps: see InprocWorld::ring
    for (const int w : call_.schedule->watchers)
        endpoint_.world().ring(group_.world_ranks[static_cast<std::size_t>(w)]);
}

const std::vector<Need>& InprocCollective::current_needs() const {
    const Schedule& schedule = *call_.schedule;
    return step_ < schedule.steps.size() ? schedule.steps[step_].needs : schedule.completion;
}

bool InprocCollective::met(const std::vector<Need>& needs) {
    for (const Need& need : needs) {
        const std::uint32_t progress = entry(need.rank).progress.load(std::memory_order_acquire);
        if (progress > 0) check_agreement(need.rank);
        if (progress < need.progress) return false;
    }
    return true;
}

void InprocCollective::check_agreement(int other) const {
    const Fingerprint& mine = own().fingerprint;
    const Fingerprint& theirs = entry(other).fingerprint;
    if (mine.hash == theirs.hash) [[likely]]
        return;
    const int me = group_.world_ranks[static_cast<std::size_t>(rank_)];
    const int them = group_.world_ranks[static_cast<std::size_t>(other)];
    throw RankFailure(them, fmt::format("ranks {} and {} disagree: rank {} calls {}, rank {} calls {}", me, them, me,
                                        to_string(mine), them, to_string(theirs)));
}

bool InprocCollective::advance() {
    while (step_ < call_.schedule->steps.size()) {
        const Step& step = call_.schedule->steps[step_];
        if (!met(step.needs)) return false;
        take(step);
        ++step_;
        publish(static_cast<std::uint32_t>(step_ + 1));
    }
    return met(call_.schedule->completion);
}

void InprocCollective::take(const Step& step) {
    const InprocWorld::Touching touching(endpoint_.world(), endpoint_.world_rank());
    const auto start = Clock::now();
    for (const Move* move : step.moves) execute(*move);
    endpoint_.add_move_seconds(Clock::now() - start);
}

void InprocCollective::execute(const Move& move) {
    if (move.count == 0) return;
    const auto world = [&](int r) { return group_.world_ranks[static_cast<std::size_t>(r)]; };
    const auto bytes = [&](const Slot& s, std::int64_t elements) {
        return elements * element_bytes(s.buffer, call_.dtype);
    };
    sources_.clear();
    destinations_.clear();
    for (const Slot& s : move.sources) {
        const Entry& e = entry(s.rank);
        const std::byte* base = s.buffer == Buffer::in ? e.in : s.buffer == Buffer::out ? e.out : e.scratch;
        sources_.push_back({base + bytes(s, s.offset), s.buffer == Buffer::scratch});
        endpoint_.world().count(endpoint_.world_rank(), call_.spec->operation, world(s.rank), world(rank_),
                                bytes(s, move.count));
    }
    for (const Slot& d : move.destinations) {
        const Entry& e = entry(d.rank);
        destinations_.push_back(
            {(d.buffer == Buffer::out ? e.out : e.scratch) + bytes(d, d.offset), d.buffer == Buffer::scratch});
        endpoint_.world().count(endpoint_.world_rank(), call_.spec->operation, world(rank_), world(d.rank),
                                bytes(d, move.count));
    }
    const bool divides = call_.op == ReduceOp::avg && call_.program->finishes(move);
    combine({call_.dtype, call_.op, divides ? group_.size() : 1, streaming_}, sources_, destinations_, move.count);
}

std::string InprocCollective::waiting_for(int& culprit) const {
    std::string text;
    for (const Need& need : current_needs()) {
        const std::uint32_t progress = entry(need.rank).progress.load(std::memory_order_acquire);
        if (progress >= need.progress) continue;
        const int w = group_.world_ranks[static_cast<std::size_t>(need.rank)];
        if (text.empty()) culprit = w;
        const std::string status = endpoint_.world().status(w);
        text += fmt::format("{}rank {} {}{}{}", text.empty() ? "" : "; ", w,
                            progress == 0 ? "has not arrived" : "has arrived but not done its part",
                            status.empty() ? "" : " and ", status);
    }
    return text;
}

void InprocCollective::check_possible() const {
    for (const Need& need : current_needs()) {
        const int w = group_.world_ranks[static_cast<std::size_t>(need.rank)];
        if (!endpoint_.world().finished(w)) continue;
        if (entry(need.rank).progress.load(std::memory_order_acquire) >= need.progress) continue;
        throw RankFailure(w, fmt::format("rank {} has finished, but rank {} waits for it in {}", w,
                                         endpoint_.world_rank(), describe()));
    }
}

}  // namespace cleave::comm
