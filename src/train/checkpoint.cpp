#include "train/checkpoint.h"

#include <cmath>

#include "base/error.h"

namespace cleave {

namespace {

std::string state_name(const Parameter& parameter, const std::string& state) {
    return "optimizer." + state + "." + parameter.name;
}

std::span<const std::byte> bytes_of(const Tensor& tensor) {
    return {static_cast<const std::byte*>(tensor.view().data), static_cast<std::size_t>(tensor.view().bytes())};
}

// Names of the tensors of one kind ("" for the weights), and where they are.
struct Kind {
    std::string name;
    const Flats* flats;
    std::string name_of(const Parameter& parameter) const {
        return name.empty() ? parameter.name : state_name(parameter, name);
    }
};

void save(const std::filesystem::path& path, const ParameterStore& store, const std::vector<Kind>& kinds,
          const Json& metadata) {
    const bool writes = store.engine().rank() == 0;
    CheckpointWriter writer;
    for (const Kind& kind : kinds)
        for (const Parameter* parameter : store.buckets().all_parameters())
            writer.declare(kind.name_of(*parameter), kind.flats->front().dtype(), parameter->shape);
    if (writes) writer.open(path, metadata);
    for (const Kind& kind : kinds)
        store.buckets().visit(*kind.flats, [&](const Parameter& parameter, const Tensor& whole) {
            if (!writes) return;
            const std::string name = kind.name_of(parameter);
            if (!is_finite(whole))
                throw RunError("{} holds a value that is not finite: no checkpoint was written", name);
            writer.put(name, bytes_of(whole));
        });
    if (writes) writer.commit();
}

}  // namespace

void write_piece(Engine& engine, const Tensor& tensor, std::span<const std::byte> whole) {
    if (tensor.local_shape() == tensor.shape()) return engine.write(tensor, whole);
    Box all;
    Box own;
    for (int d = 0; d < tensor.shape().rank(); ++d) {
        const std::int64_t begin = tensor.view().offset[d];
        all.push_back({0, tensor.shape()[d]});
        own.push_back({begin, begin + tensor.local_shape()[d]});
    }
    std::vector<std::byte> piece(static_cast<std::size_t>(tensor.view().bytes()));
    copy_box(whole.data(), all, piece.data(), own, own, size_of(tensor.dtype()));
    engine.write(tensor, piece);
}

bool is_finite(const Tensor& tensor) {
    bool finite = true;
    dispatch_float(tensor.dtype(), [&]<class T>(T) {
        const T* values = tensor.view().as<T>();
        for (std::int64_t i = 0; i < tensor.view().elements(); ++i)
            finite = finite && std::isfinite(static_cast<accumulator_t<T>>(values[i]));
    });
    return finite;
}

void save_checkpoint(const std::filesystem::path& path, Transformer& model, const Optimizer& optimizer,
                     const Json& metadata) {
    const ParameterStore& store = model.store();
    std::vector<Kind> kinds{{"", &store.masters()}};
    for (const Optimizer::State& state : optimizer.states()) kinds.push_back({state.name, &state.flats});
    save(path, store, kinds, metadata);
}

void save_weights(const std::filesystem::path& path, Transformer& model, const Json& metadata) {
    save(path, model.store(), {{"", &model.store().masters()}}, metadata);
}

void load_weights(const CheckpointFile& file, Transformer& model) {
    model.store().fill([&](const Parameter& parameter, const Tensor& master) {
        write_piece(model.store().engine(), master, file.bytes_of(parameter.name, master.dtype(), parameter.shape));
    });
}

void load_optimizer(const CheckpointFile& file, const Optimizer& optimizer) {
    const ParameterStore& store = optimizer.store();
    for (const Optimizer::State& state : optimizer.states())
        store.buckets().fill(state.flats, [&](const Parameter& parameter, const Tensor& tensor) {
            write_piece(store.engine(), tensor,
                        file.bytes_of(state_name(parameter, state.name), tensor.dtype(), parameter.shape));
        });
}

}  // namespace cleave
