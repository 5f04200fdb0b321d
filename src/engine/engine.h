// The small interface between the training step and what executes it. The step is written once against these verbs:
//
//     alloc        a tensor with storage, freed with its last copy
//     launch       a kernel; its placement rule is checked here, in one place, for every launch
//     transition   a tensor from one layout to another (placement/transition.h), now or asynchronously
//     send         a rank's piece to the rank at another coordinate of an axis, and receive, its dual
//     read, write  a scalar to the host that steers it; host data into a tensor
//     mark         a named point in the trace
//
// Engine checks, accounts (ledger) and records (trace); CpuEngine executes, VirtualEngine executes nothing. Both
// therefore run the same program in the same order. Thread rule: an engine belongs to one rank's thread.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "cluster/ledger.h"
#include "engine/exchange.h"
#include "engine/tensor.h"
#include "engine/trace.h"
#include "kernels/kernel.h"
#include "placement/mesh.h"
#include "placement/transition.h"

namespace cleave {

// What a kernel's new output is to be.
struct OutputSpec {
    std::string_view name;
    Shape shape;  // global
    DType dtype;
    MemoryKind kind = MemoryKind::activations;
};

// A transition or a message in flight. finish() must be called once, on the engine that started it.
class PendingTransition;
class PendingMessage;

class Engine {
  public:
    Engine(const Mesh& mesh, int rank, comm::TransportKind transport)
        : mesh_(mesh), rank_(rank), transport_(transport) {}
    virtual ~Engine() = default;
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    const Mesh& mesh() const { return mesh_; }
    int rank() const { return rank_; }
    Ledger& ledger() { return ledger_; }
    Trace& trace() { return trace_; }
    // Seconds of this rank's own thread that communication has taken since the start (engine/trace.h), traced or not.
    double exposed_communication_s() const { return exposed_; }
    virtual bool is_virtual() const = 0;

    Tensor alloc(std::string_view name, const Shape& shape, const Layout& layout, DType dtype, MemoryKind kind);
    // A tensor of its own in the memory of `flat`, this rank's piece from element `offset` of flat's piece on.
    Tensor slice_of(const Tensor& flat, std::int64_t offset, std::string_view name, const Shape& shape,
                    const Layout& layout);
    // This rank's piece in the layout `to` of a tensor that it holds whole, in the same memory. `to` cuts the outermost
    // dim alone.
    Tensor piece_of(const Tensor& whole, const Layout& to);
    // The rows [begin, end) of this rank's piece (dim 0) as a tensor of its own with the same layout: every rank of the
    // axes that cut the rows gives as many.
    Tensor local_rows(const Tensor& tensor, const Range& rows);

    using Tensors = std::initializer_list<Tensor>;
    // Into tensors that exist: their layouts must be those that the kernel's rule gives.
    void launch(const kernels::Kernel& kernel, Tensors inputs, Tensors outputs) {
        launch(kernel, std::span(inputs.begin(), inputs.size()), std::span(outputs.begin(), outputs.size()));
    }
    void launch(const kernels::Kernel& kernel, std::span<const Tensor> inputs, std::span<const Tensor> outputs);
    // Into new tensors, whose layouts come from the rule.
    std::vector<Tensor> create(const kernels::Kernel& kernel, Tensors inputs,
                               std::initializer_list<OutputSpec> outputs);
    Tensor create(const kernels::Kernel& kernel, Tensors inputs, const OutputSpec& output) {
        return create(kernel, inputs, std::initializer_list<OutputSpec>{output}).front();
    }
    // What create() would make, for launches that fill it in parts.
    Tensor alloc_output(const kernels::Kernel& kernel, Tensors inputs, const OutputSpec& output);

    // The same value in another layout. Along the axes that change, one and the same action must be asked for (they
    // then form one group), or several transitions must be written.
    Tensor transition(const Tensor& tensor, const Layout& to);
    // What it asks of the ranks along the axes that change; nothing where they are one.
    Action action_to(const Tensor& tensor, const Layout& to) const;
    std::shared_ptr<PendingTransition> start_transition(const Tensor& tensor, const Layout& to);
    // As start_transition, the result in the place of the input (all_reduce only, where input and output are alike).
    std::shared_ptr<PendingTransition> start_transition_in_place(const Tensor& tensor, const Layout& to);
    // As start_transition, the result into a tensor that exists, whose layout is the one to come to. It may be this
    // rank's piece of `tensor` (piece_of; a reduce_scatter in place), or `tensor` its piece (an all_gather in place).
    std::shared_ptr<PendingTransition> start_transition_into(const Tensor& tensor, const Tensor& output);
    Tensor finish(const std::shared_ptr<PendingTransition>& pending);

    // Messages between two ranks that differ in their coordinate along `axis` alone: this rank's piece of `tensor` to
    // the one at `coordinate`, or from it into `tensor`. Both give the same shape, dtype and layout; messages of two
    // ranks are matched by `tag`, in the order of issue. A send is complete when it has been received.
    struct Peer {
        AxisId axis;
        int coordinate;
        int tag;
    };
    std::shared_ptr<PendingMessage> start_send(const Tensor& tensor, const Peer& to);
    std::shared_ptr<PendingMessage> start_receive(const Tensor& tensor, const Peer& from);
    // The tensor that was sent, or that is filled now.
    Tensor finish(const std::shared_ptr<PendingMessage>& pending);

    // The scalar's value; `stated` on the virtual engine.
    virtual double read(const Tensor& scalar, double stated) = 0;
    // This rank's piece of `tensor` from host memory of the same dtype and size, and back.
    void write(const Tensor& tensor, std::span<const std::byte> bytes);
    virtual void read_bytes(const Tensor& tensor, std::span<std::byte> bytes) = 0;
    void mark(std::string_view name);

  protected:
    friend class Storage;

    virtual void* acquire(std::int64_t bytes) = 0;
    // A tensor has taken the block.
    virtual void name_block(void*, std::int64_t, MemoryKind, std::string_view) {}
    virtual void give_back(void* block, std::int64_t bytes) = 0;
    virtual void run(const kernels::Kernel& kernel, kernels::Views inputs, kernels::Views outputs, void* workspace) = 0;
    // Between kernels: moves on what is in flight.
    virtual void progress() {}
    virtual void run_local(const Exchange& exchange) = 0;
    // Starts the communication; complete() ends it. The token is whatever the engine needs in between.
    virtual std::shared_ptr<void> start(const Exchange& exchange) = 0;
    virtual void complete(const Exchange& exchange, const std::shared_ptr<void>& token) = 0;
    virtual std::shared_ptr<void> start_message(const Tensor& tensor, bool sends, int rank, int tag) = 0;
    virtual void complete_message(const std::shared_ptr<void>& token) = 0;
    virtual void copy_in(const Tensor& tensor, std::span<const std::byte> bytes) = 0;

    std::shared_ptr<Storage> acquire_storage(std::int64_t bytes, MemoryKind kind);
    void release(void* block, std::int64_t bytes, MemoryKind kind);
    void record(Event event);

  private:
    // Bytes that this rank sends, from the step program of the algorithm that the communicator chooses.
    std::int64_t bytes_sent(const Exchange& exchange) const;
    // With its input, axes and action.
    Exchange exchange_to(const Tensor& tensor, const Layout& to) const;
    void record_local(const Exchange& exchange, double begin, const std::string& placement);
    std::shared_ptr<PendingTransition> start_exchange(const Tensor& tensor, const Layout& to,
                                                      const Tensor& output = {});
    std::shared_ptr<PendingMessage> start_message(const Tensor& tensor, bool sends, const Peer& peer);
    // The view of this rank's piece, without its place in memory.
    kernels::View local_view(const Shape& shape, const Layout& layout, DType dtype) const;
    void launch_checked(const kernels::Kernel& kernel, std::span<const Tensor> inputs, std::span<const Tensor> outputs);

    const Mesh& mesh_;
    int rank_;
    comm::TransportKind transport_;
    Ledger ledger_;
    Trace trace_;
    double exposed_ = 0;
    std::int64_t exchanges_ = 0;  // numbers the trace's issue and wait events
};

class PendingTransition {
  public:
    PendingTransition(Exchange exchange, std::shared_ptr<void> token, std::int64_t number)
        : exchange_(std::move(exchange)), token_(std::move(token)), number_(number) {}

  private:
    friend class Engine;
    Exchange exchange_;
    std::shared_ptr<void> token_;
    std::int64_t number_;
};

class PendingMessage {
  public:
    PendingMessage(Tensor tensor, bool sends, std::shared_ptr<void> token, std::int64_t number)
        : tensor_(std::move(tensor)), sends_(sends), token_(std::move(token)), number_(number) {}

  private:
    friend class Engine;
    Tensor tensor_;
    bool sends_;
    std::shared_ptr<void> token_;
    std::int64_t number_;
};

}  // namespace cleave
