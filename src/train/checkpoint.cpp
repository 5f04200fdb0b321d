#include "train/checkpoint.h"

#include <cmath>

#include "base/error.h"

namespace cleave {

namespace {

void check_finite(const Tensor& tensor) {
    if (!is_finite(tensor))
        throw RunError("{} holds a value that is not finite: no checkpoint was written", tensor.name());
}

void add(CheckpointWriter& writer, const std::string& name, const Tensor& tensor) {
    CLEAVE_CHECK(tensor.local_shape() == tensor.shape(), "{} is cut", name);
    check_finite(tensor);
    writer.add(name, tensor.dtype(), tensor.shape(), tensor.view().data);
}

void add_weights(CheckpointWriter& writer, Transformer& model) {
    for (Parameter* parameter : model.parameters()) add(writer, parameter->name, parameter->master);
}

void load(const CheckpointFile& file, Engine& engine, const std::string& name, const Tensor& tensor) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.view().bytes()));
    file.read(name, tensor.dtype(), tensor.shape(), bytes.data());
    engine.write(tensor, bytes);
}

std::string state_name(const Parameter& parameter, const std::string& state) {
    return "optimizer." + state + "." + parameter.name;
}

}  // namespace

bool is_finite(const Tensor& tensor) {
    bool finite = true;
    dispatch_float(tensor.dtype(), [&]<class T>(T) {
        const T* values = tensor.view().as<T>();
        for (std::int64_t i = 0; i < tensor.view().elements(); ++i)
            finite = finite && std::isfinite(static_cast<accumulator_t<T>>(values[i]));
    });
    return finite;
}

Environment this_environment(int ranks, int team) {
    Environment environment;
    environment.build = fmt::format("cleave {}, compiler {}", CLEAVE_VERSION, __VERSION__);
    environment.instruction_set = __builtin_cpu_supports("avx512f") ? "avx512"
                                  : __builtin_cpu_supports("avx2")  ? "avx2"
                                                                    : "sse";
    environment.ranks = ranks;
    environment.team = team;
    return environment;
}

Json to_json(const Environment& environment) {
    Json json = Json::object();
    json.set("build", environment.build);
    json.set("instruction_set", environment.instruction_set);
    json.set("ranks", environment.ranks);
    json.set("team", environment.team);
    return json;
}

std::string environment_difference(const Json& saved, const Environment& now) {
    std::string text;
    const Json current = to_json(now);
    for (const auto& [key, value] : *current.members()) {
        const Json* old = saved.find(key);
        if (old != nullptr && *old == value) continue;
        text += fmt::format("{}{} was {}, is {}", text.empty() ? "" : "; ", key,
                            old == nullptr ? "not recorded" : old->dump(), value.dump());
    }
    return text;
}

void save_checkpoint(const std::filesystem::path& path, Transformer& model, const Optimizer& optimizer,
                     const Json& metadata) {
    CheckpointWriter writer;
    add_weights(writer, model);
    for (const Optimizer::State& state : optimizer.states())
        for (const auto& [name, tensor] : state.tensors) add(writer, state_name(*state.parameter, name), tensor);
    writer.write(path, metadata);
}

void save_weights(const std::filesystem::path& path, Transformer& model, const Json& metadata) {
    CheckpointWriter writer;
    add_weights(writer, model);
    writer.write(path, metadata);
}

void load_weights(const CheckpointFile& file, Engine& engine, Transformer& model) {
    for (Parameter* parameter : model.parameters()) load(file, engine, parameter->name, parameter->master);
    model.refresh_values();
}

void load_optimizer(const CheckpointFile& file, Engine& engine, const Optimizer& optimizer) {
    for (const Optimizer::State& state : optimizer.states())
        for (const auto& [name, tensor] : state.tensors) load(file, engine, state_name(*state.parameter, name), tensor);
}

}  // namespace cleave
