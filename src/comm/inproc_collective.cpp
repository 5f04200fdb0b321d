#include "comm/inproc_collective.h"

#include <algorithm>

namespace cleave::comm {

InprocOperation::InprocOperation(InprocEndpoint& endpoint, InprocGroupState& group,
                                 std::shared_ptr<InprocGroupState::Chunk> chunk, int rank, std::uint64_t sequence,
                                 const Collective& call)
    : endpoint_(endpoint),
      group_(group),
      chunk_(std::move(chunk)),
      first_entry_(&chunk_->entries[sequence % group.places * static_cast<std::size_t>(group.size())]),
      meeting_(chunk_->meetings[sequence % group.places]),
      rank_(rank),
      call_(call),
      scratch_(endpoint.scratch().take(call.program->scratch_elements * element_bytes(Buffer::scratch, call.dtype))),
      streaming_(endpoint.world().exceeds_cache(call.program->total_elements * size_of(call.dtype))) {
    Entry& e = own();
    e.in = static_cast<const std::byte*>(call.in);
    e.out = static_cast<std::byte*>(call.out);
    e.scratch = scratch_.data;
    e.fingerprint = fingerprint_of(*call.spec, call.dtype, call.op, sequence);
}

InprocOperation::~InprocOperation() {
    endpoint_.scratch().give_back(scratch_);
}

void InprocOperation::publish(std::uint32_t progress) {
    // Sequentially consistent: it comes before the look at who sleeps (InprocWorld::ring).
    own().progress.store(progress, std::memory_order_seq_cst);
}

void InprocOperation::ring(const std::vector<int>& list) const {
    for (const int r : list) world().ring(world_rank(r));
}

void InprocOperation::check_agreement(int other) const {
    const Fingerprint& mine = own().fingerprint;
    const Fingerprint& theirs = entry(other).fingerprint;
    if (mine.hash == theirs.hash) [[likely]]
        return;
    const int me = world_rank(rank_);
    const int them = world_rank(other);
    throw RankFailure(them, fmt::format("ranks {} and {} disagree: rank {} calls {}, rank {} calls {}", me, them, me,
                                        to_string(mine), them, to_string(theirs)));
}

template <class F>
void InprocOperation::touching_others(F&& f) {
    const InprocWorld::Touching touching(world(), endpoint_.world_rank());
    const auto start = Clock::now();
    f();
    endpoint_.add_move_seconds(Clock::now() - start);
}

void InprocOperation::execute(const Step& step) {
    touching_others([&] {
        for (const Move* move : step.moves) execute(*move);
    });
}

void InprocOperation::execute(const Program& program) {
    touching_others([&] {
        for (const Phase& phase : program.phases)
            for (const Move& move : phase) execute(move);
    });
}

void InprocOperation::execute(const Move& move) {
    if (move.count == 0) return;
    const auto bytes = [&](const Slot& s, std::int64_t elements) {
        return elements * element_bytes(s.buffer, call_.dtype);
    };
    const auto count = [&](int from, int to, std::int64_t moved) {
        world().count(endpoint_.world_rank(), call_.spec->operation, world_rank(from), world_rank(to), moved);
    };
    auto& [sources, destinations] = endpoint_.operands();
    sources.clear();
    destinations.clear();
    for (const Slot& s : move.sources) {
        const Entry& e = entry(s.rank);
        const std::byte* base = s.buffer == Buffer::in ? e.in : s.buffer == Buffer::out ? e.out : e.scratch;
        sources.push_back({base + bytes(s, s.offset), s.buffer == Buffer::scratch});
        count(s.rank, move.executor, bytes(s, move.count));
    }
    for (const Slot& d : move.destinations) {
        const Entry& e = entry(d.rank);
        std::byte* base = d.buffer == Buffer::out ? e.out : e.scratch;
        destinations.push_back({base + bytes(d, d.offset), d.buffer == Buffer::scratch});
        count(move.executor, d.rank, bytes(d, move.count));
    }
    const bool divides = call_.op == ReduceOp::avg && call_.program->finishes(move);
    combine({call_.dtype, call_.op, divides ? group_.size() : 1, streaming_}, sources, destinations, move.count);
}

void InprocOperation::describe_lack(int rank, const char* what, std::string& text, int& culprit) const {
    const int w = world_rank(rank);
    if (text.empty()) culprit = w;
    const std::string status = world().status(w);
    text += fmt::format("{}rank {} {}{}{}", text.empty() ? "" : "; ", w, what, status.empty() ? "" : " and ", status);
}

void InprocOperation::check_not_finished(int rank, std::uint32_t needed) const {
    const int w = world_rank(rank);
    if (!world().finished(w) || progress_of(rank) >= needed) return;
    throw RankFailure(
        w, fmt::format("rank {} has finished, but rank {} waits for it in {}", w, endpoint_.world_rank(), describe()));
}

const std::vector<Need>& InprocCollective::current_needs() const {
    const Schedule& schedule = *call().schedule;
    return step_ < schedule.steps.size() ? schedule.steps[step_].needs : schedule.completion;
}

bool InprocCollective::met(const std::vector<Need>& needs) {
    for (const Need& need : needs) {
        const std::uint32_t progress = progress_of(need.rank);
        if (progress > 0) check_agreement(need.rank);
        if (progress < need.progress) return false;
    }
    return true;
}

bool InprocCollective::advance() {
    const Schedule& schedule = *call().schedule;
    if (!arrived_) {
        arrived_ = true;
        publish(1);
        meeting().arrived.fetch_add(1,
                                    std::memory_order_seq_cst);  // a rank with another idea of the size may wait there
        ring(schedule.watchers);
    }
    while (step_ < schedule.steps.size()) {
        const Step& step = schedule.steps[step_];
        if (!met(step.needs)) return false;
        execute(step);
        ++step_;
        publish(static_cast<std::uint32_t>(step_ + 1));
        ring(schedule.watchers);
    }
    return met(schedule.completion);
}

std::string InprocCollective::waiting_for(int& culprit) const {
    std::string text;
    for (const Need& need : current_needs()) {
        const std::uint32_t progress = progress_of(need.rank);
        if (progress >= need.progress) continue;
        describe_lack(need.rank, progress == 0 ? "has not arrived" : "has arrived but not done its part", text,
                      culprit);
    }
    return text;
}

void InprocCollective::check_possible() const {
    for (const Need& need : current_needs()) check_not_finished(need.rank, need.progress);
}

bool InprocSmallCollective::advance() {
    if (!arrived_) {
        arrived_ = true;
        publish(1);
        if (meeting().arrived.fetch_add(1, std::memory_order_seq_cst) + 1 == call().spec->size) do_everything();
    }
    return meeting().done.load(std::memory_order_acquire);
}

void InprocSmallCollective::do_everything() {
    for (int r = 0; r < call().spec->size; ++r) check_agreement(r);
    execute(*call().program);
    meeting().done.store(true, std::memory_order_seq_cst);
    for (int r = 0; r < call().spec->size; ++r) world().ring(world_rank(r));
}

std::string InprocSmallCollective::waiting_for(int& culprit) const {
    std::string text;
    for (int r = 0; r < call().spec->size; ++r)
        if (progress_of(r) == 0) describe_lack(r, "has not arrived", text, culprit);
    return text.empty() ? "the last to arrive has not done it" : text;
}

void InprocSmallCollective::check_possible() const {
    for (int r = 0; r < call().spec->size; ++r) check_not_finished(r, 1);
}

}  // namespace cleave::comm
