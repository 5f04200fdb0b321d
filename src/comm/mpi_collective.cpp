#include "comm/mpi_collective.h"

#include <algorithm>

namespace cleave::comm {
namespace {

std::vector<int> needed_ranks(const Schedule& schedule) {
    std::vector<int> ranks;
    const auto add = [&](const std::vector<Need>& needs) {
        for (const Need& n : needs)
            if (std::find(ranks.begin(), ranks.end(), n.rank) == ranks.end()) ranks.push_back(n.rank);
    };
    for (const Step& s : schedule.steps) add(s.needs);
    add(schedule.completion);
    return ranks;
}

}  // namespace

MpiCollective::MpiCollective(MpiEndpoint& endpoint, const MpiGroup& group, std::uint64_t sequence,
                             const Collective& call)
    : endpoint_(endpoint),
      group_(group),
      call_(call),
      sequence_(sequence),
      agreement_(endpoint, group, fingerprint_of(*call.spec, call.dtype, call.op, sequence), call.schedule->watchers,
                 needed_ranks(*call.schedule), tag_of(sequence, CollectiveTag::fingerprint)),
      scratch_(endpoint.scratch().take(call.program->scratch_elements * element_bytes(Buffer::scratch, call.dtype))) {}

MpiCollective::~MpiCollective() {
    end_phase();
    endpoint_.scratch().give_back(scratch_);
}

std::byte* MpiCollective::place(const Slot& slot) const {
    const std::byte* base = slot.buffer == Buffer::in    ? static_cast<const std::byte*>(call_.in)
                            : slot.buffer == Buffer::out ? static_cast<const std::byte*>(call_.out)
                                                         : scratch_.data;
    return const_cast<std::byte*>(base) + slot.offset * element_bytes(slot.buffer, call_.dtype);
}

std::int64_t MpiCollective::bytes(const Move& move, const Slot& slot) const {
    return move.count * element_bytes(slot.buffer, call_.dtype);
}

std::byte* MpiCollective::stage(std::int64_t bytes) {
    return staged_.emplace_back(endpoint_.scratch().take(bytes)).data;
}

bool MpiCollective::advance() {
    agreed_ = agreed_ || agreement_.reached();
    if (!agreed_) return false;
    while (phase_ < call_.program->phases.size()) {
        if (!begun_) round_ == Round::sources ? begin_sources() : begin_results();
        begun_ = true;
        if (!transfers_.done()) return false;
        begun_ = false;
        if (round_ == Round::sources) {
            round_ = Round::results;
        } else {
            round_ = Round::sources;
            end_phase();
            ++phase_;
        }
    }
    return agreement_.sent();
}

void MpiCollective::begin_sources() {
    const int tag = tag_of(sequence_, CollectiveTag::source);
    for (const Move& move : call_.program->phases[phase_]) {
        if (move.count == 0) continue;
        if (move.executor == group_.rank()) {
            begin_execution(move);
            continue;
        }
        for (const Slot& s : move.sources)
            if (s.rank == group_.rank()) {
                transfers_.send(place(s), bytes(move, s), move.executor, tag, group_.collectives());
                endpoint_.count_sent(call_.spec->operation, bytes(move, s));
            }
    }
}

void MpiCollective::begin_execution(const Move& move) {
    Execution execution{&move, {}, {}, nullptr};
    const Slot* own = nullptr;  // a copy that ends here is received where it ends
    for (const Slot& d : move.destinations)
        if (d.rank == group_.rank() && move.sources.size() == 1 && bytes(move, d) == bytes(move, move.sources[0]))
            own = &d;
    for (const Slot& s : move.sources) {
        std::byte* at = nullptr;
        if (s.rank == group_.rank()) {
            at = place(s);
        } else {
            at = own != nullptr ? place(*own) : stage(bytes(move, s));
            transfers_.receive(at, bytes(move, s), s.rank, tag_of(sequence_, CollectiveTag::source),
                               group_.collectives());
            endpoint_.count_received(call_.spec->operation, bytes(move, s));
        }
        execution.sources.push_back({at, s.buffer == Buffer::scratch});
    }
    bool remote = false;
    for (const Slot& d : move.destinations) {
        remote = remote || d.rank != group_.rank();
        if (d.rank == group_.rank()) execution.destinations.push_back({place(d), d.buffer == Buffer::scratch});
    }
    const Slot& first = move.destinations[0];
    if (remote && execution.destinations.empty())
        execution.destinations.push_back({stage(bytes(move, first)), first.buffer == Buffer::scratch});
    execution.result = execution.destinations[0].data;
    executions_.push_back(std::move(execution));
}

void MpiCollective::begin_results() {
    const int tag = tag_of(sequence_, CollectiveTag::result);
    for (const Move& move : call_.program->phases[phase_]) {
        if (move.executor == group_.rank() || move.count == 0) continue;
        for (const Slot& d : move.destinations)
            if (d.rank == group_.rank()) {
                transfers_.receive(place(d), bytes(move, d), move.executor, tag, group_.collectives());
                endpoint_.count_received(call_.spec->operation, bytes(move, d));
            }
    }
    for (const Execution& e : executions_) {
        execute(e);
        for (const Slot& d : e.move->destinations)
            if (d.rank != group_.rank()) {
                transfers_.send(e.result, bytes(*e.move, d), d.rank, tag, group_.collectives());
                endpoint_.count_sent(call_.spec->operation, bytes(*e.move, d));
            }
    }
}

void MpiCollective::execute(const Execution& e) {
    const auto start = Clock::now();
    const bool divides = call_.op == ReduceOp::avg && call_.program->finishes(*e.move);
    combine({call_.dtype, call_.op, divides ? group_.size() : 1, false}, e.sources, e.destinations, e.move->count);
    endpoint_.add_move_seconds(Clock::now() - start);
}

void MpiCollective::end_phase() {
    executions_.clear();
    for (const ScratchPool::Block& b : staged_) endpoint_.scratch().give_back(b);
    staged_.clear();
}

std::vector<int> MpiCollective::partners() const {
    std::vector<int> ranks;
    if (phase_ == call_.program->phases.size()) return ranks;
    const auto add = [&](int r) {
        if (r != group_.rank() && std::find(ranks.begin(), ranks.end(), r) == ranks.end()) ranks.push_back(r);
    };
    for (const Move& move : call_.program->phases[phase_]) {
        const auto& slots = round_ == Round::sources ? move.sources : move.destinations;
        for (const Slot& s : slots) {
            if (move.executor == group_.rank()) add(s.rank);
            if (s.rank == group_.rank()) add(move.executor);
        }
    }
    return ranks;
}

std::string MpiCollective::waiting_for(int& culprit) const {
    if (!agreed_) return absence(endpoint_, group_, agreement_.absent(), "has not arrived", culprit);
    return absence(endpoint_, group_, partners(), "has arrived but not done its part", culprit);
}

void MpiCollective::check_possible() const {
    if (!agreed_) check_not_finished(endpoint_, group_, agreement_.absent(), describe());
}

}  // namespace cleave::comm
