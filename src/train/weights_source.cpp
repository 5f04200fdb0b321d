#include "train/weights_source.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/hash.h"
#include "base/words.h"
#include "train/checkpoint.h"
#include "train/job_keys.h"
#include "train/run_folder.h"
#include "train/safetensors_values.h"
#include "train/spelt_out.h"

namespace cleave {

namespace {

// The newest checkpoint of a run folder; a file is one itself. None: something else, or nothing.
std::optional<std::filesystem::path> checkpoint_in(const std::filesystem::path& path) {
    if (!std::filesystem::is_directory(path)) return path;
    return RunFolder::newest_checkpoint(path);
}

Job job_of(const CheckpointFile& file) {
    const Json* job = file.metadata().find("job");
    if (job == nullptr)
        throw UserError("{}: no checkpoint of a training run (no job in its metadata)", file.path().string());
    return job_from_json(*job, file.path().string());
}

// Keys of [model] that need not be those of the weights: what training adds; and rotary positions have no table that
// ends.
bool is_free(std::string_view key, Family family) {
    return key == "model.context" || key == "model.initial_deviation" || key == "model.dropout" ||
           key == "model.attention_dropout" || key == "model.keep_dropout_masks" ||
           (key == "model.positions" && family == Family::llama);
}

}  // namespace

WeightsSource::WeightsSource(const std::filesystem::path& path) {
    if (!std::filesystem::exists(path))
        throw UserError(
            "there is no folder or checkpoint '{}'; accepted: a Hugging Face folder, the folder of a run, or a "
            "checkpoint file",
            path.string());
    const bool folder = is_hugging_face_folder(path);
    const auto file = folder ? std::nullopt : checkpoint_in(path);
    if (folder) {
        hugging_face_.emplace(path);
        job_.model = hugging_face_->config().model;
    } else if (file) {
        checkpoint_.emplace(*file);
        job_ = job_of(*checkpoint_);
    } else {
        throw UserError(
            "{} holds neither a checkpoint, as the folder of a finished or stopped run would, nor a config.json, as a "
            "Hugging Face folder would",
            path.string());
    }
}

const std::filesystem::path& WeightsSource::path() const {
    return checkpoint_ ? checkpoint_->path() : hugging_face_->path();
}

std::string WeightsSource::description() const {
    if (checkpoint_) return fmt::format("the checkpoint {}", path().string());
    return fmt::format("the Hugging Face folder {} ({})", path().string(), hugging_face_->config().architecture);
}

std::optional<std::filesystem::path> WeightsSource::tokenizer_file() const {
    const bool other = checkpoint_ ? job_.data.tokenizer != TokenizerKind::bpe : own_tokenizer_file().has_value();
    const auto file =
        checkpoint_ ? RunFolder::tokenizer_of(checkpoint_->path()) : RunFolder::tokenizer_in(hugging_face_->path());
    return !other && std::filesystem::is_regular_file(file) ? std::optional(file) : std::nullopt;
}

// Of a Hugging Face folder.
std::optional<std::filesystem::path> WeightsSource::own_tokenizer_file() const {
    if (!hugging_face_) return std::nullopt;
    const auto file = hugging_face_->path() / kOwnTokenizerName;
    return std::filesystem::is_regular_file(file) ? std::optional(file) : std::nullopt;
}

bool WeightsSource::has_tokenizer() const {
    const bool saved = checkpoint_ && checkpoint_->metadata().find("tokenizer") != nullptr;
    return saved || own_tokenizer_file() || tokenizer_file();
}

Tokenizer WeightsSource::tokenizer() const {
    Tokenizer found = saved_tokenizer();
    // Tokens index the model's tables: each must have its row.
    if (found.vocabulary() < 1 || found.vocabulary() > job_.model.vocabulary)
        throw UserError("cannot use '{}': its tokenizer has {}, its model {} for them; accepted: from 1 to {}",
                        path().string(), counted(found.vocabulary(), "token"), counted(job_.model.vocabulary, "row"),
                        job_.model.vocabulary);
    return found;
}

Tokenizer WeightsSource::saved_tokenizer() const {
    const Json* saved = checkpoint_ ? checkpoint_->metadata().find("tokenizer") : nullptr;
    if (saved != nullptr) return Tokenizer::from_json(*saved, checkpoint_->path().string());
    if (const auto own = own_tokenizer_file())
        return Tokenizer::from_json(Json::parse(read_text_file(*own), own->string()), own->string());
    const auto file = tokenizer_file();
    if (!file)
        throw UserError(
            "{} has no tokenizer.json and no {}; accepted: a folder with that of its model, the first for byte-level "
            "BPE, the second as `cleave convert` writes it for characters and bytes",
            description(), kOwnTokenizerName);
    return Tokenizer::bpe(read_bpe(*file));
}

std::uint64_t WeightsSource::hash() const {
    std::uint64_t hash = 0;
    const auto add = [&](std::string_view name, std::string_view type, std::span<const std::byte> bytes) {
        hash = hash64(bytes, hash64(type, hash64(name, hash)));
    };
    if (checkpoint_)
        for (const CheckpointTensor& tensor : checkpoint_->tensors())
            add(tensor.name, name_of(tensor.dtype), tensor.bytes);
    else
        for (const auto& [name, tensor] : hugging_face_->weights().tensors())
            add(name, tensor->type.name, tensor->bytes);
    return hash;
}

namespace {

// As load_weights, where the masters have another dtype than those of the run.
void load_converted(const CheckpointFile& file, Transformer& model, DType saved) {
    model.store().fill([&](const Parameter& parameter, const Tensor& master) {
        const auto stored = file.bytes_of(parameter.name, saved, master.shape());
        std::vector<std::byte> converted(static_cast<std::size_t>(master.shape().elements() * size_of(master.dtype())));
        convert_values(stored_as(saved), stored, master.dtype(), converted.data());
        write_piece(model.store().engine(), master, converted);
    });
}

}  // namespace

void WeightsSource::load(Transformer& model) const {
    if (hugging_face_) return hugging_face_->load(model);
    const DType saved = accumulator_of(job_.train.dtype);
    if (saved == accumulator_of(model.compute()))
        load_weights(*checkpoint_, model);
    else
        load_converted(*checkpoint_, model, saved);
}

namespace {

// Of these keys, 0 stands for what another key or the text says: it is as good as not set.
bool says_nothing(const Key& key) {
    constexpr std::array<std::string_view, 5> kAutomatic = {"model.kv_heads", "model.head_width", "model.mlp_width",
                                                            "model.positions", "model.vocabulary"};
    return value_of(key) == Value(std::int64_t{0}) &&
           std::find(kAutomatic.begin(), kAutomatic.end(), key.name) != kAutomatic.end();
}

}  // namespace

std::vector<std::string> adopt_model(Job& job, const std::function<bool(std::string_view)>& is_set) {
    if (job.weights.empty()) return {};
    std::optional<WeightsSource> opened;
    try {
        opened.emplace(job.weights);
    } catch (const UserError& error) {
        return {fmt::format("model.weights: {}", error.what())};
    }
    const WeightsSource& source = *opened;
    Job theirs = source.job();
    theirs.model.positions = theirs.model.most_positions();  // the table's rows, whatever the context becomes
    if (const auto file = source.tokenizer_file(); file && !is_set("data.tokenizer")) {
        job.data.tokenizer = TokenizerKind::bpe;
        if (!is_set("data.tokenizer_file")) job.data.tokenizer_file = file->string();
    }
    std::vector<std::string> problems;
    const auto own_keys = keys_of(job);
    const auto their_keys = keys_of(theirs);
    Job spelt = spelt_out(theirs);
    const auto spelt_keys = keys_of(spelt);
    for (std::size_t i = 0; i < own_keys.size(); ++i) {
        const Key& own = own_keys[i];
        if (own.section() != "model" || own.name == "model.weights") continue;
        const Value value = value_of(their_keys[i]);
        if (!is_set(own.name) || says_nothing(own))
            assign(own, value);
        else if (!is_free(own.name, theirs.model.family) && value_of(own) != value &&
                 value_of(own) != value_of(spelt_keys[i]))
            problems.push_back(fmt::format("{}: found {}, but {} has {}; accepted: {}, or no {}", own.name,
                                           value_text(value_of(own)), source.description(), value_text(value),
                                           value_text(value), own.name));
    }
    return problems;
}

}  // namespace cleave
