#include "engine/engine.h"

#include <algorithm>
#include <array>
#include <cstdint>

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
    exposed_ += exposed_communication(event);
    trace_.add(std::move(event));
}

kernels::View Engine::local_view(const Shape& shape, const Layout& layout, DType dtype) const {
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
    return view;
}

Tensor Engine::alloc(std::string_view name, const Shape& shape, const Layout& layout, DType dtype, MemoryKind kind) {
    kernels::View view = local_view(shape, layout, dtype);
    auto storage = acquire_storage(view.bytes(), kind);
    view.data = storage->data();
    name_block(view.data, view.bytes(), kind, name);
    return {std::string(name), shape, layout, view, std::move(storage)};
}

namespace {

void* element_at(const Tensor& tensor, std::int64_t index) {
    auto* data = static_cast<std::byte*>(tensor.view().data);
    return data == nullptr ? nullptr : data + index * size_of(tensor.dtype());
}

}  // namespace

Tensor Engine::slice_of(const Tensor& flat, std::int64_t offset, std::string_view name, const Shape& shape,
                        const Layout& layout) {
    kernels::View view = local_view(shape, layout, flat.dtype());
    CLEAVE_CHECK(offset + view.elements() <= flat.view().elements(), "{} at {} of {}", name, offset, flat.name());
    view.data = element_at(flat, offset);
    return {std::string(name), shape, layout, view, flat.storage()};
}

Tensor Engine::piece_of(const Tensor& whole, const Layout& to) {
    CLEAVE_CHECK(whole.local_shape() == whole.shape() && whole.view().dense(), "{} is not held whole", whole.name());
    kernels::View view = local_view(whole.shape(), to, whole.dtype());
    const std::int64_t row = view.shape.product(1, view.shape.rank());
    CLEAVE_CHECK(row == whole.shape().product(1, whole.shape().rank()), "a piece of {} that is cut within its rows",
                 whole.name());
    view.data = element_at(whole, view.offset[0] * row);
    return {whole.name(), whole.shape(), to, view, whole.storage()};
}

Tensor Engine::local_rows(const Tensor& tensor, const Range& rows) {
    const Shape& local = tensor.local_shape();
    CLEAVE_CHECK(tensor.view().dense() && rows.begin >= 0 && rows.begin <= rows.end && rows.end <= local[0],
                 "rows [{}, {}) of {}", rows.begin, rows.end, tensor.name());
    Shape shape = tensor.shape();
    shape[0] = rows.length();
    for (const auto& [axis, placement] : tensor.layout())
        if (placement.is(Kind::S) && placement.dim == 0) shape[0] *= mesh_.size(axis);
    return slice_of(tensor, rows.begin * local.product(1, local.rank()), tensor.name(), shape, tensor.layout());
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
        const double begin = trace_.now();
        progress();
        exposed_ += trace_.now() - begin;
        return;
    }
    const kernels::Cost cost = kernel.cost(in_views, out_views);
    Event event{EventType::launch, std::string(kernel.name()), names_of(outputs), static_cast<std::int64_t>(cost.bytes),
                cost.flops};
    event.products = kernel.products(in_views, out_views);
    event.placement = to_string(outputs[0].layout(), mesh_);
    event.begin = trace_.now();
    run(kernel, in_views, out_views, workspace ? workspace->data() : nullptr);
    event.end = trace_.now();
    progress();
    event.moving = trace_.now() - event.end;
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
        CLEAVE_CHECK(kernel.signature().accepts(i, rule.outputs[i], out[i].layout()),
                     "kernel {}: output {} is {}, but its rule gives {}", kernel.name(), out[i].name(),
                     to_string(out[i].layout(), mesh_), to_string(rule.outputs[i], mesh_));
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

Tensor Engine::alloc_output(const kernels::Kernel& kernel, Tensors inputs, const OutputSpec& output) {
    const auto rule = checked_rule(kernel, {inputs.begin(), inputs.size()}, mesh_);
    CLEAVE_CHECK(rule.outputs.size() == 1, "kernel {} has {} outputs", kernel.name(), rule.outputs.size());
    return alloc(output.name, output.shape, rule.outputs[0], output.dtype, output.kind);
}

Tensor Engine::transition(const Tensor& tensor, const Layout& to) {
    return finish(start_exchange(tensor, to));
}

std::shared_ptr<PendingTransition> Engine::start_transition(const Tensor& tensor, const Layout& to) {
    return start_exchange(tensor, to);
}

std::shared_ptr<PendingTransition> Engine::start_transition_in_place(const Tensor& tensor, const Layout& to) {
    return start_exchange(tensor, to, tensor.relabelled(to));
}

std::shared_ptr<PendingTransition> Engine::start_transition_into(const Tensor& tensor, const Tensor& output) {
    return start_exchange(tensor, output.layout(), output);
}

std::int64_t Engine::bytes_sent(const Exchange& exchange) const {
    comm::Spec spec = spec_of(exchange, mesh_, rank_);
    spec.algorithm = comm::choose_algorithm(spec.operation, spec.size, exchange.input.view().bytes(), transport_);
    const std::vector<int> group = mesh_.group(rank_, exchange.axes);
    const auto own = std::find(group.begin(), group.end(), rank_) - group.begin();
    return comm::bytes_sent(spec, static_cast<int>(own), exchange.input.dtype());
}

namespace {

std::string placement_text(const Exchange& exchange, const Mesh& mesh) {
    std::string axes;
    for (AxisId axis : exchange.axes) axes += (axes.empty() ? "" : ", ") + mesh.name(axis);
    return fmt::format("{} -> {} along {}", to_string(exchange.from), to_string(exchange.to), axes);
}

// Where the whole tensor would begin, if the pieces of the outermost dim lay in one memory.
std::uintptr_t origin_of(const Tensor& tensor) {
    const kernels::View& view = tensor.view();
    const int rank = view.shape.rank();
    const std::int64_t before = rank == 0 ? 0 : view.offset[0] * view.shape.product(1, rank) * size_of(view.dtype);
    return reinterpret_cast<std::uintptr_t>(view.data) - static_cast<std::uintptr_t>(before);
}

// Input and output may share memory where each element that both hold has one place in it.
void check_output(const Exchange& exchange, const Tensor& output) {
    const Tensor& input = exchange.input;
    CLEAVE_CHECK(output.shape() == input.shape() && output.dtype() == input.dtype() && output.view().dense(),
                 "{} {} into {} {}", input.name(), to_string(input.shape()), output.name(), to_string(output.shape()));
    if (output.storage() != input.storage()) return;
    const bool possible = exchange.action == Action::all_reduce || exchange.action == Action::all_gather ||
                          exchange.action == Action::reduce_scatter;
    CLEAVE_CHECK(possible && origin_of(input) == origin_of(output), "a {} of {} in place", name_of(exchange.action),
                 input.name());
}

}  // namespace

void Engine::record_local(const Exchange& exchange, double begin, const std::string& placement) {
    const std::int64_t bytes = exchange.action == Action::nothing ? 0 : exchange.output.view().bytes();
    record({EventType::local,
            std::string(name_of(exchange.action)),
            exchange.input.name(),
            bytes,
            0,
            0,
            begin,
            trace_.now(),
            {},
            placement});
}

Exchange Engine::exchange_to(const Tensor& tensor, const Layout& to) const {
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
    return exchange;
}

Action Engine::action_to(const Tensor& tensor, const Layout& to) const {
    const Exchange exchange = exchange_to(tensor, to);
    return mesh_.joint_size(exchange.axes) == 1 ? Action::nothing : exchange.action;
}

std::shared_ptr<PendingTransition> Engine::start_exchange(const Tensor& tensor, const Layout& to,
                                                          const Tensor& output) {
    Exchange exchange = exchange_to(tensor, to);
    const std::string placement = trace_.on() ? placement_text(exchange, mesh_) : "";
    CLEAVE_CHECK(tensor.view().dense(), "transition of a strided tensor {}", tensor.name());
    // A group of one: every action is a change of label.
    if (exchange.action == Action::nothing || mesh_.joint_size(exchange.axes) == 1) {
        CLEAVE_CHECK(!output || output.view().data == tensor.view().data, "{} would have to be copied", tensor.name());
        if (trace_.on() && mesh_.joint_size(exchange.axes) > 1) record_local(exchange, trace_.now(), placement);
        exchange.output = tensor.relabelled(to);
        exchange.action = Action::nothing;
        return std::make_shared<PendingTransition>(std::move(exchange), nullptr, -1);
    }
    if (output) check_output(exchange, output);
    exchange.output = output ? output : alloc(tensor.name(), tensor.shape(), to, tensor.dtype(), tensor.kind());
    const double begin = trace_.now();
    if (!communicates(exchange.action)) {
        run_local(exchange);
        if (trace_.on())
            record_local(exchange, begin, placement);
        else
            exposed_ += trace_.now() - begin;
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
        record({EventType::issue,
                std::string(name_of(exchange.action)),
                fmt::format("{} #{}", tensor.name(), number),
                bytes_sent(exchange),
                0,
                0,
                begin,
                trace_.now(),
                {},
                placement});
    else
        exposed_ += trace_.now() - begin;
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
        else
            exposed_ += trace_.now() - begin;
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
