#include "train/trainer.h"

#include <algorithm>
#include <cstdio>

#include "base/log.h"
#include "comm/launch.h"
#include "train/checkpoint.h"
#include "train/dry_run_report.h"
#include "train/generate.h"
#include "train/job_check.h"
#include "train/job_keys.h"
#include "train/training_run.h"

namespace cleave {

namespace {

void print(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
}

// All at once, one a line.
void throw_if_any(const std::vector<std::string>& problems) {
    if (problems.empty()) return;
    std::string text;
    for (const std::string& problem : problems) text += (text.empty() ? "" : "\n       ") + problem;
    throw UserError(text);
}

comm::LaunchOptions launch_options(const Job& job, int ranks) {
    comm::LaunchOptions options;
    options.ranks = comm::under_mpirun() ? 0 : ranks;
    options.timeout = std::chrono::duration_cast<comm::Duration>(std::chrono::duration<double>(job.comm.timeout_s));
    return options;
}

void report(const SharedRun& run, bool json) {
    const TrainingResult& r = run.result;
    if (json) {
        Json out = Json::object();
        out.set("steps", r.steps).set("stopped", r.stopped).set("parameters", r.parameters);
        if (!r.stopped) out.set("train_loss", r.train_loss).set("validation_loss", r.validation_loss);
        out.set("tokens_per_s", r.tokens_per_s).set("step_time_s", r.step_time_s).set("seconds", r.seconds);
        out.set("peak_bytes", to_json(r.peak_bytes)).set("run_folder", run.folder->path().string());
        if (!r.stopped) out.set("sample", r.sample);
        print(out.dump() + "\n");
        return;
    }
    if (r.stopped) {
        print(fmt::format("stopped after step {} of {}; --resume goes on from {}\n", r.steps, run.job.train.steps,
                          run.folder->checkpoint(r.steps).string()));
        return;
    }
    print(fmt::format("\n{}\n\n", r.sample));
    print(fmt::format("train loss {:.4f}, validation loss {:.4f} after {} steps in {:.1f} s ({:.0f} tokens/s)\n",
                      r.train_loss, r.validation_loss, r.steps, r.seconds, r.tokens_per_s));
    print(fmt::format("{}: config.toml, metrics.jsonl, loss.svg, sample.txt, checkpoints/\n",
                      run.folder->path().string()));
}

// The newest checkpoint of the run folder, checked against what is asked for now.
CheckpointFile open_for_resume(const std::filesystem::path& folder, const Job& job, const Dataset& dataset) {
    const auto newest = latest_checkpoint(folder / "checkpoints");
    if (!newest) throw UserError("{} holds no checkpoint to resume from: --overwrite begins anew", folder.string());
    CheckpointFile file(*newest);
    const std::string source = newest->string();
    const Json* step = file.metadata().find("step");
    const Json* saved_job = file.metadata().find("job");
    const Json* text = file.metadata().find("text_xxh64");
    if (step == nullptr || step->integer() == nullptr || *step->integer() < 0 || saved_job == nullptr)
        throw UserError("{}: no checkpoint of a training run (no step or job in its metadata)", source);
    auto differences = resume_differences(job_from_json(*saved_job, source), job);
    const Json hash = fmt::format("{:016x}", dataset.text_hash());
    if (text == nullptr || *text != hash)
        differences.refused.push_back(
            fmt::format("data.path: {} is another text than the checkpoint was trained on", job.data.path));
    throw_if_any(differences.refused);
    for (const std::string& line : differences.announced)
        log_warning("the run will not equal an unbroken one: {}", line);
    return file;
}

int train(const TrainOptions& options) {
    const std::filesystem::path path = options.job.run.folder;
    const auto mode = options.resume      ? RunFolder::Mode::resume
                      : options.overwrite ? RunFolder::Mode::overwrite
                                          : RunFolder::Mode::fresh;
    // Under MPI the folder is rank 0's, and each process keeps the tokens in memory; threads share one mapped file.
    const bool mpi = comm::under_mpirun();
    std::optional<RunFolder> folder;
    if (!mpi) folder.emplace(path, mode);
    try {
        const Dataset dataset = Dataset::open(options.job.data, mpi ? std::nullopt : std::optional(folder->tokens()));
        Job job = options.job;
        if (job.model.vocabulary == 0) job.model.vocabulary = dataset.tokenizer().vocabulary();
        throw_if_any(check(job, options.ranks, &dataset));
        std::optional<CheckpointFile> checkpoint;
        if (options.resume) checkpoint.emplace(open_for_resume(path, job, dataset));
        const Mesh mesh = mesh_of(job, options.ranks);
        SharedRun run{
            options, job, mesh, dataset, checkpoint ? &*checkpoint : nullptr, nullptr, team_size(options.ranks), {}};
        comm::run_ranks(launch_options(job, options.ranks), [&](comm::Communicator& world) {
            set_thread_rank(world.rank());
            if (world.rank() == 0) {
                if (mpi) folder.emplace(path, mode);
                folder->begin(options.config_text);
                run.folder = &*folder;
            }
            world.barrier().wait();
            TrainingRun(run, world).run();
            if (world.rank() == 0) report(run, options.json);
        });
        return run.stopped ? kExitStopped : kExitOk;
    } catch (const RunError& error) {
        const auto newest = latest_checkpoint(path / "checkpoints");
        throw RunError("{}{}", error.what(), newest ? fmt::format("; {} stays", newest->string()) : "");
    } catch (...) {
        if (folder) folder->abandon();
        throw;
    }
}

int plan_only(const TrainOptions& options) {
    Job job = options.job;
    const Dataset dataset = Dataset::open(job.data, std::nullopt);
    if (job.model.vocabulary == 0) job.model.vocabulary = dataset.tokenizer().vocabulary();
    throw_if_any(check(job, options.ranks, &dataset));
    const auto transport = comm::under_mpirun() ? comm::TransportKind::mpi : comm::TransportKind::inproc;
    const auto plans = dry_run(job, options.ranks, transport, team_size(options.ranks));
    print(options.json ? dry_run_json(plans).dump() + "\n" : dry_run_text(plans));
    return kExitOk;
}

}  // namespace

int run_training(const TrainOptions& options) {
    return options.dry_run ? plan_only(options) : train(options);
}

int run_generation(const GenerateOptions& options) {
    std::filesystem::path path = options.folder;
    if (std::filesystem::is_directory(path)) {
        const auto newest = latest_checkpoint(path / "checkpoints");
        if (!newest)
            throw UserError("{} holds no checkpoint; the folder of a finished or stopped run would", path.string());
        path = *newest;
    }
    const CheckpointFile file(path);
    const Json* saved_job = file.metadata().find("job");
    const Json* saved_tokenizer = file.metadata().find("tokenizer");
    if (saved_job == nullptr || saved_tokenizer == nullptr)
        throw UserError("{}: no checkpoint of a training run (no job or tokenizer in its metadata)", path.string());
    const Job job = job_from_json(*saved_job, path.string());
    const Tokenizer tokenizer = Tokenizer::from_json(*saved_tokenizer, path.string());
    Job::Sample sample = job.sample;
    sample.prompt = options.prompt.value_or(sample.prompt);
    sample.tokens = options.tokens.value_or(sample.tokens);
    sample.temperature = options.temperature.value_or(sample.temperature);
    sample.top_k = options.top_k.value_or(sample.top_k);
    std::vector<Token> prompt = tokenizer.encode(sample.prompt, "the prompt");
    if (prompt.empty()) prompt.push_back(tokenizer.kind() == TokenizerKind::bytes ? '\n' : 0);

    const Mesh mesh({{"pp", 1}, {"dp", 1}, {"cp", 1}, {"tp", 1}});
    comm::LaunchOptions launch;
    launch.ranks = 1;
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        CpuEngine engine(mesh, world, team_size(1));
        Transformer model(engine, job.model, data_parallel_layouts(mesh), job.train.dtype);
        load_weights(file, engine, model);
        StreamingDecoder decoder(tokenizer);
        std::string text = tokenizer.decode(prompt);
        auto show = [&](const std::string& piece) {
            text += piece;
            if (!options.json) print(piece);
        };
        if (!options.json) print(text);
        generate(engine, model, prompt, sample, static_cast<std::uint64_t>(options.seed),
                 [&](Token token) { show(decoder.add(token)); });
        show(decoder.finish());
        Json out = Json::object();
        out.set("text", text).set("checkpoint", path.string());
        print(options.json ? out.dump() + "\n" : "\n");
    });
    return kExitOk;
}

}  // namespace cleave
