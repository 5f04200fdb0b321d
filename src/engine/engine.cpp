#include "engine/engine.h"

#include <algorithm>
#include <array>

#include "comm/algorithm.h"

namespace cleave {

using Kind = Placement::Kind;

namespace {

constexpr std::size_t kMaxOperands = 8;

std::string names_of(std::span<const Tensor> tensors) {
    std::string text;
    for (const Tensor& tensor : tensors) text += (text.empty() ? "" : ", ") + tensor.name();
    return text;
}

}  // namespace

std::shared_ptr<Storage> Engine::acquire_storage(std::int64_t bytes, MemoryKind kind) {
    void* block = acquire(bytes);
    ledger_.allocate(kind, bytes);
    return std::make_shared<Storage>(*this, block, bytes, kind);
}

void Engine::release(void* block, std::int64_t bytes, MemoryKind kind) {
    ledger_.free(kind, bytes);
    give_back(block, bytes);
}

void Engine::record(Event event) {
    event.live_bytes = ledger_.live();
    trace_.add(std::move(event));
}

Tensor Engine::alloc(std::string_view name, const Shape& shape, const Layout& layout, DType dtype, MemoryKind kind) {
    kernels::View view;
    view.dtype = dtype;
    view.shape = shape;
    view.offset = Shape::filled(shape.rank(), 0);
    for (const auto& [axis, placement] : layout) {
        if (!placement.is(Kind::S)) continue;
        std::int64_t& extent = view.shape[placement.dim];
        const Range piece = cut(extent, mesh_.coordinate(rank_, axis), mesh_.size(axis), placement.unit);
        view.offset[placement.dim] += piece.begin;
        extent = piece.length();
    }
    view.strides = kernels::dense_strides(view.shape);
    auto storage = acquire_storage(view.bytes(), kind);
    view.data = storage->data();
    return {std::string(name), shape, layout, view, std::move(storage)};
}

Tensor Engine::slice_of(const Tensor& flat, std::int64_t offset, std::string_view name, const Shape& shape,
                        const Layout& layout) {
    for (const auto& entry : layout) CLEAVE_CHECK(!entry.placement.is(Kind::S), "a slice of a flat tensor is not cut");
    CLEAVE_CHECK(offset + shape.elements() <= flat.view().elements());
    kernels::View view = kernels::whole_view(nullptr, flat.dtype(), shape);
    if (flat.view().data != nullptr)
        view.data = static_cast<std::byte*>(flat.view().data) + offset * size_of(flat.dtype());
    return {std::string(name), shape, layout, view, flat.storage()};
}

void Engine::launch_checked(const kernels::Kernel& kernel, std::span<const Tensor> inputs,
                            std::span<const Tensor> outputs) {
    CLEAVE_CHECK(inputs.size() <= kMaxOperands && outputs.size() <= kMaxOperands);
    std::array<kernels::View, kMaxOperands> in;
    std::array<kernels::View, kMaxOperands> out;
    for (std::size_t i = 0; i < inputs.size(); ++i) in[i] = inputs[i].view();
    for (std::size_t i = 0; i < outputs.size(); ++i) out[i] = outputs[i].view();
    const kernels::Views in_views(in.data(), inputs.size());
    const kernels::Views out_views(out.data(), outputs.size());
    std::shared_ptr<Storage> workspace;
    if (const std::int64_t bytes = kernel.workspace_bytes(in_views, out_views); bytes > 0)
        workspace = acquire_storage(bytes, MemoryKind::workspace);
    if (!trace_.on()) {
        run(kernel, in_views, out_views, workspace ? workspace->data() : nullptr);
        return;
    }
    const kernels::Cost cost = kernel.cost(in_views, out_views);
    Event event{EventType::launch, std::string(kernel.name()), names_of(outputs), static_cast<std::int64_t>(cost.bytes),
                cost.flops};
    event.products = kernel.products(in_views, out_views);
    event.begin = trace_.now();
    run(kernel, in_views, out_views, workspace ? workspace->data() : nullptr);
    event.end = trace_.now();
    record(std::move(event));
}

namespace {

// The output layouts that the kernel's rule gives; aborts where it refuses: a model that mixes placements is a bug.
Signature::Result checked_rule(const kernels::Kernel& kernel, std::span<const Tensor> inputs, const Mesh& mesh) {
    std::array<Signature::Operand, kMaxOperands> operands;
    for (std::size_t i = 0; i < inputs.size(); ++i) operands[i] = {&inputs[i].shape(), &inputs[i].layout()};
    auto result = kernel.signature().apply({operands.data(), inputs.size()}, mesh);
    if (!result.refused.empty()) {
        std::string text;
        for (const Tensor& tensor : inputs)
            text += fmt::format("\n    {} {} {}", tensor.name(), to_string(tensor.shape()),
                                to_string(tensor.layout(), mesh));
        CLEAVE_CHECK(false, "kernel {} ({}) refuses its inputs: {}{}", kernel.name(), kernel.signature().text(),
                     result.refused, text);
    }
    return result;
}

}  // namespace

void Engine::launch(const kernels::Kernel& kernel, std::span<const Tensor> in, std::span<const Tensor> out) {
    const auto rule = checked_rule(kernel, in, mesh_);
    CLEAVE_CHECK(rule.outputs.size() == out.size(), "kernel {} has {} outputs", kernel.name(), rule.outputs.size());
    for (std::size_t i = 0; i < out.size(); ++i)
        CLEAVE_CHECK(rule.outputs[i] == out[i].layout(), "kernel {}: output {} is {}, but its rule gives {}",
                     kernel.name(), out[i].name(), to_string(out[i].layout(), mesh_),
                     to_string(rule.outputs[i], mesh_));
    launch_checked(kernel, in, out);
}

std::vector<Tensor> Engine::create(const kernels::Kernel& kernel, Tensors inputs,
                                   std::initializer_list<OutputSpec> outputs) {
    const std::span<const Tensor> in(inputs.begin(), inputs.size());
    const auto rule = checked_rule(kernel, in, mesh_);
    CLEAVE_CHECK(rule.outputs.size() == outputs.size(), "kernel {} has {} outputs", kernel.name(), rule.outputs.size());
    std::vector<Tensor> created;
    created.reserve(outputs.size());
    for (const OutputSpec& spec : outputs)
        created.push_back(alloc(spec.name, spec.shape, rule.outputs[created.size()], spec.dtype, spec.kind));
    launch_checked(kernel, in, created);
    return created;
}

Tensor Engine::transition(const Tensor& tensor, const Layout& to) {
    return finish(start_exchange(tensor, to, false));
}

std::shared_ptr<PendingTransition> Engine::start_transition(const Tensor& tensor, const Layout& to) {
    return start_exchange(tensor, to, false);
}

std::shared_ptr<PendingTransition> Engine::start_transition_in_place(const Tensor& tensor, const Layout& to) {
    return start_exchange(tensor, to, true);
}

std::int64_t Engine::bytes_sent(const Exchange& exchange) const {
    comm::Spec spec = spec_of(exchange, mesh_, rank_);
    spec.algorithm = comm::choose_algorithm(spec.operation, spec.size, exchange.input.view().bytes(), transport_);
    const std::vector<int> group = mesh_.group(rank_, exchange.axes);
    const auto own = std::find(group.begin(), group.end(), rank_) - group.begin();
    return comm::build_program(spec).bytes_sent(static_cast<int>(own), exchange.input.dtype());
}

std::shared_ptr<PendingTransition> Engine::start_exchange(const Tensor& tensor, const Layout& to, bool in_place) {
    if (std::string problem = problem_with(tensor.shape(), to, mesh_); !problem.empty())
        CLEAVE_CHECK(false, "transition of {} to {}: {}", tensor.name(), to_string(to, mesh_), problem);
    Exchange exchange;
    exchange.input = tensor;
    for (AxisId axis = 0; axis < mesh_.axis_count(); ++axis) {
        const Transition change{tensor.layout().at(axis), to.at(axis)};
        if (change.from == change.to) continue;
        CLEAVE_CHECK(exchange.axes.empty() || (exchange.from == change.from && exchange.to == change.to),
                     "transition of {} from {} to {}: unlike changes along several axes", tensor.name(),
                     to_string(tensor.layout(), mesh_), to_string(to, mesh_));
        exchange.axes.push_back(axis);
        exchange.from = change.from;
        exchange.to = change.to;
    }
    exchange.action = Transition{exchange.from, exchange.to}.action();
    CLEAVE_CHECK(tensor.view().dense(), "transition of a strided tensor {}", tensor.name());
    if (exchange.action == Action::nothing) {
        exchange.output = tensor.relabelled(to);
        return std::make_shared<PendingTransition>(std::move(exchange), nullptr, -1);
    }
    CLEAVE_CHECK(!in_place || exchange.action == Action::all_reduce);
    // A group of one: every action but a sum of one term is a change of label.
    if (mesh_.joint_size(exchange.axes) == 1) {
        exchange.output = tensor.relabelled(to);
        exchange.action = Action::nothing;
        return std::make_shared<PendingTransition>(std::move(exchange), nullptr, -1);
    }
    exchange.output =
        in_place ? tensor.relabelled(to) : alloc(tensor.name(), tensor.shape(), to, tensor.dtype(), tensor.kind());
    const double begin = trace_.now();
    if (!communicates(exchange.action)) {
        run_local(exchange);
        if (trace_.on())
            record({EventType::local, std::string(name_of(exchange.action)), tensor.name(),
                    exchange.output.view().bytes(), 0, 0, begin, trace_.now()});
        exchange.input = {};
        return std::make_shared<PendingTransition>(std::move(exchange), nullptr, -1);
    }
    if (needs_packing(exchange)) {
        auto buffer = [&](std::string_view name, std::int64_t elements) {
            return alloc(name, {elements}, {}, tensor.dtype(), MemoryKind::communication);
        };
        if (exchange.action != Action::all_gather) exchange.send = buffer("send", tensor.view().elements());
        if (exchange.action != Action::reduce_scatter)
            exchange.receive = buffer("receive", exchange.output.view().elements());
    }
    const std::int64_t number = exchanges_++;
    auto token = start(exchange);
    if (trace_.on())
        record({EventType::issue, std::string(name_of(exchange.action)), fmt::format("{} #{}", tensor.name(), number),
                bytes_sent(exchange), 0, 0, begin, trace_.now()});
    return std::make_shared<PendingTransition>(std::move(exchange), std::move(token), number);
}

Tensor Engine::finish(const std::shared_ptr<PendingTransition>& pending) {
    Exchange& exchange = pending->exchange_;
    Tensor output = exchange.output;
    CLEAVE_CHECK(output, "a transition was finished twice");
    if (pending->number_ >= 0) {
        const double begin = trace_.now();
        complete(exchange, pending->token_);
        if (trace_.on())
            record({EventType::wait, std::string(name_of(exchange.action)),
                    fmt::format("{} #{}", output.name(), pending->number_), 0, 0, 0, begin, trace_.now()});
    }
    exchange = {};
    pending->token_.reset();
    return output;
}

void Engine::write(const Tensor& tensor, std::span<const std::byte> bytes) {
    CLEAVE_CHECK(static_cast<std::int64_t>(bytes.size()) == tensor.view().bytes(), "{} bytes written to {} of {}",
                 bytes.size(), tensor.name(), tensor.view().bytes());
    copy_in(tensor, bytes);
    if (trace_.on())
        record({EventType::write, "write", tensor.name(), tensor.view().bytes(), 0, 0, trace_.now(), trace_.now()});
}

void Engine::mark(std::string_view name) {
    if (trace_.on()) record({EventType::mark, std::string(name), {}, 0, 0, 0, trace_.now(), trace_.now()});
}

}  // namespace cleave
