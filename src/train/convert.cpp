#include "train/convert.h"

#include "base/error.h"
#include "base/log.h"
#include "base/output.h"
#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "parallel/data_parallel.h"
#include "train/checkpoint.h"
#include "train/job_keys.h"
#include "train/model_comparison.h"
#include "train/run_folder.h"

namespace cleave {

namespace {

namespace fs = std::filesystem;

// Files of a tokenizer and of generation's defaults, which go along as they are.
constexpr std::string_view kCompanions[] = {
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json",
    "merges.txt",     "generation_config.json"};

// Those of a model that was there before go.
std::vector<std::string> copy_companions(const fs::path& from, const fs::path& to) {
    std::vector<std::string> copied;
    for (const std::string_view name : kCompanions) {
        if (!fs::is_regular_file(from / name)) {
            fs::remove(to / name);
            continue;
        }
        write_file(to / name, read_text_file(from / name));
        copied.emplace_back(name);
    }
    return copied;
}

// Runs `body` with a model of the source's shape and weights, on one rank.
void with_model(const WeightsSource& source, const std::function<void(Engine&, Transformer&)>& body) {
    const Mesh mesh({{"pp", 1}, {"dp", 1}, {"cp", 1}, {"tp", 1}});
    // Master weights are f32 but for a run in f64.
    const DType dtype = source.job().train.dtype == DType::f64 ? DType::f64 : DType::f32;
    comm::run_ranks({}, [&](comm::Communicator& world) {
        CpuEngine engine(mesh, world, team_size(1));
        Transformer model(engine, source.model(), data_parallel_layouts(mesh), dtype);
        source.load(model);
        body(engine, model);
    });
}

struct Conversion {
    std::string does;  // "a Hugging Face folder to a run folder"
    std::vector<std::string> copied;
    Comparison comparison;
    double rounding = 0;  // the largest difference of a logit that storing as bf16 makes
};

// None, with a warning, where it is of a kind that Cleave does not read: the weights are of use without.
std::optional<Tokenizer> tokenizer_of(const WeightsSource& source) {
    if (!source.has_tokenizer()) return std::nullopt;
    try {
        return source.tokenizer();
    } catch (const UserError& error) {
        log_warning("its tokenizer cannot be used here: {}", error.what());
        return std::nullopt;
    }
}

Conversion to_run_folder(const WeightsSource& source, const ConvertOptions& options) {
    Conversion done{"a Hugging Face folder to a run folder", {}, {}, 0};
    const std::optional<Tokenizer> tokenizer = tokenizer_of(source);
    RunFolder folder(options.destination, options.overwrite ? RunFolder::Mode::overwrite : RunFolder::Mode::fresh);
    Job job = source.job();
    job.run.folder = options.destination;
    if (tokenizer && tokenizer->kind() != TokenizerKind::ids) job.data.tokenizer = tokenizer->kind();
    if (job.data.tokenizer == TokenizerKind::bpe) job.data.tokenizer_file = folder.tokenizer().string();
    with_model(source, [&](Engine& engine, Transformer& model) {
        folder.begin(options.run_file(job), "");
        done.copied = copy_companions(source.path(), folder.path());
        Json metadata{{"step", 0}, {"job", to_json(job)}, {"converted_from", source.description()}};
        if (tokenizer) metadata.set("tokenizer", tokenizer->to_json());
        save_weights(folder.checkpoint(0), model, metadata);
        mark_latest(folder.checkpoint(0));
        done.comparison = compare_with(WeightsSource(folder.path()), engine, model, model.compute());
    });
    return done;
}

// Also where an export was cut short before its config.json.
bool holds_hugging_face_model(const fs::path& folder) {
    for (const auto& entry : fs::directory_iterator(folder))
        if (is_weights_name(entry.path().filename().string())) return true;
    if (!is_hugging_face_folder(folder)) return false;
    try {
        const std::string file = (folder / "config.json").string();
        return Json::parse(read_text_file(file), file).find("model_type") != nullptr;
    } catch (const UserError&) {
        return false;
    }
}

fs::path folder_of(const WeightsSource& source) {
    if (source.hugging_face() != nullptr) return source.path();
    return fs::absolute(source.path()).parent_path().parent_path();  // RUN_FOLDER/checkpoints/step.ckpt
}

// Refuses a destination where something else than an older model of the same kind would be written over.
void check_destination(const WeightsSource& source, const ConvertOptions& options) {
    const fs::path to = options.destination;
    std::error_code none;
    if (to.empty()) throw UserError("DESTINATION: found ''; accepted: a folder, empty or to be created");
    if (!fs::exists(to, none)) return;
    if (!fs::is_directory(to, none))
        throw UserError("DESTINATION: '{}' is a file; accepted: a folder, empty or to be created", to.string());
    if (fs::equivalent(to, folder_of(source), none))
        throw UserError("DESTINATION: '{}' is the folder of SOURCE itself; accepted: another folder", to.string());
    if (fs::is_empty(to)) return;
    const bool import = source.hugging_face() != nullptr;
    const bool run = RunFolder::is_one(to);
    const bool model = holds_hugging_face_model(to);
    if (run == model || run != import)
        throw UserError(
            "DESTINATION: '{}' holds {}, and {} is to be written; accepted: another folder, empty or to be created",
            to.string(),
            run     ? "a run"
            : model ? "a Hugging Face model"
                    : "files of another kind",
            import ? "a run folder" : "a Hugging Face folder");
    if (!options.overwrite)
        throw UserError("DESTINATION: the folder '{}' holds a model: --overwrite replaces it", to.string());
}

void create_folder(const fs::path& folder) {
    std::error_code problem;
    fs::create_directories(folder, problem);
    if (problem) throw UserError("cannot create the folder {}: {}", folder.string(), problem.message());
}

// A tokenizer that no tokenizer.json holds is kept in a file of our own.
void write_own_tokenizer(const fs::path& folder, const std::optional<Tokenizer>& tokenizer,
                         std::vector<std::string>& copied) {
    const fs::path file = folder / kOwnTokenizerName;
    fs::remove(file);
    if (!tokenizer || tokenizer->kind() == TokenizerKind::bpe) return;
    write_file(file, tokenizer->to_json().dump(2) + "\n");
    copied.emplace_back(kOwnTokenizerName);
    log_info("its tokenizer is none that Transformers has: {} keeps it for Cleave", file.string());
}

Conversion to_hugging_face(const WeightsSource& source, const ConvertOptions& options) {
    Conversion done{"a checkpoint to a Hugging Face folder", {}, {}, 0};
    const fs::path folder = options.destination;
    const std::optional<Tokenizer> tokenizer = tokenizer_of(source);
    create_folder(folder);
    with_model(source, [&](Engine& engine, Transformer& model) {
        write_hugging_face(folder, model, options.dtype, options.shard_bytes > 0 ? options.shard_bytes : kShardBytes);
        done.copied = copy_companions(folder_of(source), folder);
        write_own_tokenizer(folder, tokenizer, done.copied);
        const std::vector<double> before = logits_of_prompt(engine, model);
        done.comparison = compare_with(WeightsSource(folder), engine, model, options.dtype);
        done.rounding = largest_difference(before, logits_of_prompt(engine, model));
    });
    return done;
}

void print_verdict(const Conversion& done, const ConvertOptions& options) {
    const Comparison& c = done.comparison;
    if (options.json) {
        Json different = Json::array();
        for (const std::string& name : c.different) different.push(name);
        print(Json{{"converted", done.does},
                   {"destination", options.destination},
                   {"equal", c.equal()},
                   {"tensors", c.tensors},
                   {"different", std::move(different)},
                   {"logit_difference", c.logit_difference},
                   {"rounding_of_logits", done.rounding}}
                  .dump() +
              "\n");
        return;
    }
    std::string copied;
    for (const std::string& name : done.copied) copied += ", " + name;
    print(fmt::format("{}: {} tensors in {}{}\n", done.does, c.tensors, options.destination, copied));
    if (done.rounding > 0)
        print(fmt::format("stored as {}: rounding changes a logit by up to {:.2g}\n", name_of(options.dtype),
                          done.rounding));
    if (c.equal())
        print("read again: every weight is equal bit for bit, and so are the logits of a prompt\n");
    else
        print(fmt::format("read again: DIFFERENT: {} weights{}, logits by up to {:.3g}\n", c.different.size(),
                          c.different.empty() ? "" : ", the first is " + c.different.front(), c.logit_difference));
}

}  // namespace

int run_conversion(const ConvertOptions& options) {
    const WeightsSource source(options.source);
    const bool import = source.hugging_face() != nullptr;
    if (import && options.dtype != DType::f32)
        throw UserError(
            "--dtype: found {}; a run folder holds master weights in f32, --dtype is for Hugging Face folders",
            name_of(options.dtype));
    if (import && options.shard_bytes > 0)
        throw UserError("--max-shard-size: a run folder has one checkpoint file; it is for Hugging Face folders");
    check_destination(source, options);
    if (import)
        for (const std::string& note : source.hugging_face()->config().notes) log_info("{}: {}", options.source, note);
    if (!import && source.model().family == Family::llama && source.model().dropout != 0)
        log_info("model.dropout = {} stays behind: the config.json of this architecture has no such key",
                 source.model().dropout);
    const Conversion done = import ? to_run_folder(source, options) : to_hugging_face(source, options);
    print_verdict(done, options);
    return done.comparison.equal() ? kExitOk : kExitNo;
}

}  // namespace cleave
