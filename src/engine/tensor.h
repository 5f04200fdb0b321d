// A tensor: a global shape, a layout on the mesh, and this rank's piece of it, which has storage unless the engine is
// virtual. Copies of a Tensor share the piece; the storage returns to the arena with the last of them, at a point that
// depends on the program alone.
// Thread rule: one rank's thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cluster/ledger.h"
#include "kernels/view.h"
#include "placement/placement.h"

namespace cleave {

class Engine;

// Owns one block of an engine's memory.
class Storage {
  public:
    Storage(Engine& engine, void* data, std::int64_t bytes, MemoryKind kind)
        : engine_(engine), data_(data), bytes_(bytes), kind_(kind) {}
    ~Storage();
    Storage(const Storage&) = delete;
    Storage& operator=(const Storage&) = delete;
    void* data() const { return data_; }
    std::int64_t bytes() const { return bytes_; }
    MemoryKind kind() const { return kind_; }

  private:
    Engine& engine_;
    void* data_;
    std::int64_t bytes_;
    MemoryKind kind_;
};

class Tensor {
  public:
    Tensor() = default;
    Tensor(std::string name, const Shape& shape, const Layout& layout, kernels::View view,
           std::shared_ptr<Storage> storage);

    explicit operator bool() const { return body_ != nullptr; }
    const std::string& name() const { return body_->name; }
    const Shape& shape() const { return body_->view.global; }  // global
    const Shape& local_shape() const { return body_->view.shape; }
    const Layout& layout() const { return body_->layout; }
    DType dtype() const { return body_->view.dtype; }
    const kernels::View& view() const { return body_->view; }
    const std::shared_ptr<Storage>& storage() const { return body_->storage; }
    MemoryKind kind() const { return body_->storage->kind(); }
    // No other tensor shares the storage.
    bool owns_storage_alone() const { return body_.use_count() == 1 && body_->storage.use_count() == 1; }

    // The same piece under another layout: for in-place transitions and kernels, whose rule has been checked by the
    // engine.
    Tensor relabelled(const Layout& layout) const;
    // The slice at `index` of dim `dim`, which must not be cut: one dim fewer, the storage shared.
    Tensor select(int dim, std::int64_t index) const;

    // The slices [begin, begin + count) of dim `dim`, which must not be cut: the storage shared.
    Tensor narrow(int dim, std::int64_t begin, std::int64_t count) const;

    // Copies of a tensor have one id, and no other tensor of this thread ever has it.
    std::uint64_t id() const { return body_->id; }

  private:
    struct Body {
        std::uint64_t id;
        std::string name;
        Layout layout;
        kernels::View view;
        std::shared_ptr<Storage> storage;
    };
    std::shared_ptr<const Body> body_;
};

}  // namespace cleave
