#include "comm/communicator.h"

#include <algorithm>
#include <exception>

#include "base/error.h"
#include "comm/combine.h"

namespace cleave::comm {
namespace {

std::int64_t message_bytes(const Spec& spec, DType dtype) {
    std::int64_t elements = 0;
    for (const std::int64_t c : spec.counts) elements += c;
    return elements * size_of(dtype);
}

// A group of one: what there is to move, moves within the rank.
void execute_alone(const Program& program, const void* in, void* out, DType dtype, ReduceOp op) {
    for (const Phase& phase : program.phases)
        for (const Move& move : phase) {
            const std::int64_t from = move.sources[0].offset * size_of(dtype);
            const std::int64_t to = move.destinations[0].offset * size_of(dtype);
            const Source source{static_cast<const std::byte*>(in) + from, false};
            const Destination destination{static_cast<std::byte*>(out) + to, false};
            combine({dtype, op, 1, false}, {&source, 1}, {&destination, 1}, move.count);
        }
}

}  // namespace

Handle::Handle(std::shared_ptr<Progress> progress, std::unique_ptr<PendingOperation> operation)
    : progress_(std::move(progress)),
      operation_(std::move(operation)),
      exceptions_at_issue_(std::uncaught_exceptions()) {}

Handle& Handle::operator=(Handle&& other) noexcept {
    if (this != &other) {
        release();
        progress_ = std::move(other.progress_);
        operation_ = std::move(other.operation_);
        exceptions_at_issue_ = other.exceptions_at_issue_;
    }
    return *this;
}

Handle::~Handle() {
    release();
}

void Handle::release() noexcept {
    if (operation_) progress_->release(*operation_, std::uncaught_exceptions() > exceptions_at_issue_);
    operation_.reset();
}

void Handle::wait() {
    if (operation_) progress_->wait(*operation_);
    operation_.reset();
}

bool Handle::test() {
    return !operation_ || progress_->test(*operation_);
}

Communicator::Communicator(std::shared_ptr<Progress> progress, std::unique_ptr<Group> group) {
    const int rank = group->rank();
    state_ = std::shared_ptr<State>(new State{std::move(progress), std::move(group), ProgramCache(rank)});
}

Communicator Communicator::group(std::span<const int> ranks) const {
    for (std::size_t i = 0; i < ranks.size(); ++i)
        if (ranks[i] < 0 || ranks[i] >= size() || (i > 0 && ranks[i] <= ranks[i - 1]))
            throw UserError("a group was given rank {} in place {}; ranks are 0 to {}, ascending", ranks[i], i,
                            size() - 1);
    if (std::find(ranks.begin(), ranks.end(), rank()) == ranks.end())
        throw UserError("rank {} makes a group it is not in; only members call group()", rank());
    state_->progress->endpoint().check_failure();
    if (auto meeting = state_->group->meet(ranks)) {
        auto operation = std::make_unique<PendingOperation>();
        operation->request = std::move(meeting);
        pending(std::move(operation)).wait();
    }
    return Communicator(state_->progress, state_->group->subgroup(ranks));
}

Handle Communicator::pending(std::unique_ptr<PendingOperation> operation) const {
    operation->communicator = state_;
    state_->progress->add(*operation);
    return Handle(state_->progress, std::move(operation));
}

Handle Communicator::start(Spec spec, const void* in, void* out, DType dtype, ReduceOp op) {
    spec.size = size();
    state_->progress->endpoint().check_failure();
    if (spec.algorithm == Algorithm::automatic) spec.algorithm = chosen(spec.operation, message_bytes(spec, dtype));
    if (spec.algorithm == Algorithm::native && size() > 1) {
        const std::string why = state_->group->why_not_native(spec.operation, dtype, op);
        if (!why.empty()) throw UserError("no native {}: {}", name_of(spec.operation), why);
        check(spec);
        auto operation = std::make_unique<PendingOperation>();
        operation->request = state_->group->start({&spec, nullptr, nullptr, in, out, dtype, op});
        return pending(std::move(operation));
    }
    if (size() == 1) spec.algorithm = Algorithm::direct;
    auto program = state_->programs.get(spec);
    if (size() == 1) {
        execute_alone(program->program, in, out, dtype, op);
        return {};
    }
    auto operation = std::make_unique<PendingOperation>();
    operation->program = std::move(program);
    const PreparedProgram& p = *operation->program;
    operation->request = state_->group->start({&p.program.spec, &p.program, &p.schedule, in, out, dtype, op});
    return pending(std::move(operation));
}

Handle Communicator::start(Operation operation, Algorithm algorithm, int root, Counts counts, const void* in, void* out,
                           DType dtype, ReduceOp op) {
    return start(Spec{operation, algorithm, size(), root, 0, {counts.begin(), counts.end()}}, in, out, dtype, op);
}

Handle Communicator::broadcast(void* data, std::int64_t count, DType dtype, int root, Algorithm algorithm) {
    return start(Operation::broadcast, algorithm, root, {&count, 1}, data, data, dtype, ReduceOp::sum);
}

Handle Communicator::scatter(const void* in, void* out, std::int64_t piece, DType dtype, int root,
                             Algorithm algorithm) {
    return scatter(in, out, Counts(&piece, 1), dtype, root, algorithm);
}

Handle Communicator::scatter(const void* in, void* out, Counts counts, DType dtype, int root, Algorithm algorithm) {
    return start(Operation::scatter, algorithm, root, counts, in, out, dtype, ReduceOp::sum);
}

Handle Communicator::gather(const void* in, void* out, std::int64_t piece, DType dtype, int root, Algorithm algorithm) {
    return gather(in, out, Counts(&piece, 1), dtype, root, algorithm);
}

Handle Communicator::gather(const void* in, void* out, Counts counts, DType dtype, int root, Algorithm algorithm) {
    return start(Operation::gather, algorithm, root, counts, in, out, dtype, ReduceOp::sum);
}

Handle Communicator::reduce(const void* in, void* out, std::int64_t count, DType dtype, ReduceOp op, int root,
                            Algorithm algorithm) {
    return start(Operation::reduce, algorithm, root, {&count, 1}, in, out, dtype, op);
}

Handle Communicator::all_gather(const void* in, void* out, std::int64_t piece, DType dtype, Algorithm algorithm) {
    return all_gather(in, out, Counts(&piece, 1), dtype, algorithm);
}

Handle Communicator::all_gather(const void* in, void* out, Counts counts, DType dtype, Algorithm algorithm) {
    return start(Operation::all_gather, algorithm, 0, counts, in, out, dtype, ReduceOp::sum);
}

Handle Communicator::reduce_scatter(const void* in, void* out, std::int64_t piece, DType dtype, ReduceOp op,
                                    Algorithm algorithm) {
    return reduce_scatter(in, out, Counts(&piece, 1), dtype, op, algorithm);
}

Handle Communicator::reduce_scatter(const void* in, void* out, Counts counts, DType dtype, ReduceOp op,
                                    Algorithm algorithm) {
    return start(Operation::reduce_scatter, algorithm, 0, counts, in, out, dtype, op);
}

Handle Communicator::all_reduce(const void* in, void* out, std::int64_t count, DType dtype, ReduceOp op,
                                Algorithm algorithm) {
    return start(Operation::all_reduce, algorithm, 0, {&count, 1}, in, out, dtype, op);
}

Handle Communicator::all_to_all(const void* in, void* out, std::int64_t piece, DType dtype, Algorithm algorithm) {
    return all_to_all(in, out, Counts(&piece, 1), dtype, algorithm);
}

Handle Communicator::all_to_all(const void* in, void* out, Counts counts, DType dtype, Algorithm algorithm) {
    return start(Operation::all_to_all, algorithm, 0, counts, in, out, dtype, ReduceOp::sum);
}

Handle Communicator::barrier(Algorithm algorithm) {
    return start(Operation::barrier, algorithm, 0, {}, nullptr, nullptr, DType::u8, ReduceOp::sum);
}

void Communicator::check_message(int peer, std::int64_t count) const {
    if (peer < 0 || peer >= size())
        throw UserError("a message names rank {}; the group has ranks 0 to {}", peer, size() - 1);
    if (count < 0) throw UserError("a message was given a count of {}; counts are 0 or more", count);
    state_->progress->endpoint().check_failure();
}

Handle Communicator::isend(const void* data, std::int64_t count, DType dtype, int to, int tag) {
    check_message(to, count);
    auto operation = std::make_unique<PendingOperation>();
    operation->request = state_->group->start_send({to, tag, const_cast<void*>(data), count, dtype});
    return pending(std::move(operation));
}

Handle Communicator::irecv(void* data, std::int64_t count, DType dtype, int from, int tag) {
    check_message(from, count);
    auto operation = std::make_unique<PendingOperation>();
    operation->request = state_->group->start_recv({from, tag, data, count, dtype});
    return pending(std::move(operation));
}

void Communicator::send(const void* data, std::int64_t count, DType dtype, int to, int tag) {
    isend(data, count, dtype, to, tag).wait();
}

void Communicator::recv(void* data, std::int64_t count, DType dtype, int from, int tag) {
    irecv(data, count, dtype, from, tag).wait();
}

}  // namespace cleave::comm
