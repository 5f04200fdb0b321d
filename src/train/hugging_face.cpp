#include "train/hugging_face.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "engine/virtual_engine.h"
#include "parallel/data_parallel.h"
#include "train/checkpoint.h"
#include "train/job_check.h"

namespace cleave {

namespace {

constexpr std::string_view kConfigName = "config.json";
constexpr std::string_view kHead = "lm_head.weight";

std::string_view root_of(const ModelConfig& model) {
    return model.family == Family::gpt2 ? "transformer." : "model.";
}

std::string token_table(const ModelConfig& model) {
    return std::string(root_of(model)) + (model.family == Family::gpt2 ? "wte.weight" : "embed_tokens.weight");
}

// What files may hold beside the parameters: causal masks and rotary frequencies, which follow from the configuration.
bool is_buffer(std::string_view name) {
    return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
           name.ends_with(".rotary_emb.inv_freq");
}

HuggingFaceModel read_config(const std::filesystem::path& folder) {
    const std::string file = (folder / kConfigName).string();
    if (!std::filesystem::exists(file))
        throw UserError("{} holds no {}; a Hugging Face folder would", folder.string(), kConfigName);
    return read_hugging_face_config(Json::parse(read_text_file(file), file), file);
}

// Calls f with the model's parameters as they would be, without memory for them.
template <class F>
void with_parameters(const ModelConfig& config, F&& f) {
    const Mesh mesh({{"pp", 1}, {"dp", 1}, {"cp", 1}, {"tp", 1}});
    VirtualEngine engine(mesh, 0, comm::TransportKind::inproc, 1);
    Transformer model(engine, config, data_parallel_layouts(mesh), DType::f32);
    f(model.parameters());
}

void check_tensor(const Parameter& parameter, const SafetensorsTensor* tensor, std::vector<std::string>& problems) {
    const Shape shape = hugging_face_shape(parameter);
    if (tensor == nullptr)
        problems.push_back(fmt::format("the weights lack '{}' {}", parameter.name, to_string(shape)));
    else if (tensor->shape != shape)
        problems.push_back(fmt::format("'{}' is {} in the weights, the configuration needs {}", tensor->name,
                                       to_string(tensor->shape), to_string(shape)));
    else if (!is_readable(tensor->type))
        problems.push_back(
            fmt::format("'{}' is {} in the weights; accepted: F32, BF16, F16, F64", tensor->name, tensor->type.name));
}

// A folder of other weights differs in all of them: the first ones say enough.
void throw_first(const std::filesystem::path& folder, std::vector<std::string> problems) {
    constexpr std::size_t kShown = 12;
    if (problems.size() > kShown) {
        const std::size_t more = problems.size() - kShown;
        problems.resize(kShown);
        problems.push_back(fmt::format("and {} more", more));
    }
    for (std::string& problem : problems) problem = fmt::format("{}: {}", folder.string(), problem);
    throw_problems(problems);
}

}  // namespace

bool is_hugging_face_folder(const std::filesystem::path& folder) {
    return std::filesystem::is_regular_file(folder / kConfigName);
}

Shape hugging_face_shape(const Parameter& parameter) {
    const Shape& shape = parameter.shape;
    const int rank = shape.rank();
    if (rank <= 2 && !parameter.name.ends_with(".bias")) return shape;
    if (parameter.name.ends_with(".bias")) return {shape.elements()};
    const bool first_alone = parameter.name.ends_with("c_attn.weight") || parameter.name.ends_with("o_proj.weight");
    const int split = first_alone ? 1 : rank - 1;
    return {shape.product(0, split), shape.product(split, rank)};
}

HuggingFaceFolder::HuggingFaceFolder(std::filesystem::path folder)
    : path_(std::move(folder)), config_(read_config(path_)), weights_(path_) {
    check_tensors();
}

const SafetensorsTensor* HuggingFaceFolder::find(std::string_view name) const {
    const SafetensorsTensor* tensor = weights_.find(name);
    const std::string_view root = root_of(config_.model);
    return tensor == nullptr && name.starts_with(root) ? weights_.find(name.substr(root.size())) : tensor;
}

const SafetensorsTensor& HuggingFaceFolder::tensor(const Parameter& parameter) const {
    const SafetensorsTensor* tensor = find(parameter.name);
    CLEAVE_CHECK(tensor != nullptr && tensor->shape == hugging_face_shape(parameter), "{}", parameter.name);
    return *tensor;
}

void HuggingFaceFolder::check_tensors() const {
    std::vector<std::string> problems;
    std::set<const SafetensorsTensor*> used;
    with_parameters(config_.model, [&](const std::vector<Parameter*>& parameters) {
        for (const Parameter* parameter : parameters) {
            const SafetensorsTensor* tensor = find(parameter->name);
            used.insert(tensor);
            check_tensor(*parameter, tensor, problems);
        }
    });
    check_tied(problems);
    for (const auto& [name, tensor] : weights_.tensors())
        if (!used.contains(tensor) && !is_buffer(name) && name != kHead)
            problems.push_back(fmt::format("'{}' {} is in the weights, but {} has no such parameter", name,
                                           to_string(tensor->shape), config_.architecture));
    throw_first(path_, std::move(problems));
}

// Older files hold the head beside the table it is tied to: both must then be the same.
void HuggingFaceFolder::check_tied(std::vector<std::string>& problems) const {
    const SafetensorsTensor* head = weights_.find(kHead);
    if (!config_.model.tied_embeddings || head == nullptr) return;
    const std::string name = token_table(config_.model);
    const SafetensorsTensor* table = find(name);
    if (table == nullptr || table->type.name != head->type.name || table->shape != head->shape ||
        !std::equal(table->bytes.begin(), table->bytes.end(), head->bytes.begin(), head->bytes.end()))
        problems.push_back(
            fmt::format("'{}' differs from '{}', but tie_word_embeddings says that they are one", kHead, name));
}

void HuggingFaceFolder::load(Transformer& model) const {
    std::vector<std::byte> values;  // of one tensor
    model.store().fill([&](const Parameter& parameter, const Tensor& master) {
        const SafetensorsTensor& stored = tensor(parameter);
        values.resize(static_cast<std::size_t>(parameter.shape.elements() * size_of(master.dtype())));
        convert_values(stored.type, stored.bytes, master.dtype(), values.data());
        write_piece(model.store().engine(), master, values);
        if (!is_finite(master))
            throw UserError(
                "the Hugging Face folder {} ({}): '{}' holds a value that is infinite or no number; "
                "accepted: finite weights",
                path_.string(), config_.architecture, parameter.name);
    });
}

void write_hugging_face(const std::filesystem::path& folder, Transformer& model, DType stored,
                        std::int64_t shard_bytes) {
    const Json config = hugging_face_config(model.config(), stored);
    SafetensorsWriter writer;
    for (const Parameter* parameter : model.parameters()) {
        const Tensor& master = parameter->master;
        CLEAVE_CHECK(master.local_shape() == master.shape(), "{} is cut", parameter->name);
        writer.add(parameter->name, hugging_face_shape(*parameter), master.dtype(), master.view().data, stored);
    }
    if (model.config().tied_embeddings) writer.add_alias(std::string(kHead), token_table(model.config()));
    writer.write_folder(folder, shard_bytes);
    write_file(folder / kConfigName, config.dump(2) + "\n");
}

}  // namespace cleave
