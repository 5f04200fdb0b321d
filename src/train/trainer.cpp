#include "train/trainer.h"

#include <algorithm>

#include "base/log.h"
#include "base/output.h"
#include "base/stop.h"
#include "base/words.h"
#include "comm/launch.h"
#include "train/checkpoint.h"
#include "train/dry_run_report.h"
#include "train/gather_text.h"
#include "train/job_check.h"
#include "train/job_keys.h"
#include "train/layout_notes.h"
#include "train/memory_check.h"
#include "train/nearest_layouts.h"
#include "train/training_run.h"

namespace cleave {

namespace {

comm::LaunchOptions launch_options(const Job& job, int ranks) {
    comm::LaunchOptions options;
    options.ranks = ranks;
    options.timeout = std::chrono::duration_cast<comm::Duration>(std::chrono::duration<double>(job.comm.timeout_s));
    return options;
}

// A finished run that is resumed has nothing left to do.
std::string what_was_trained(const TrainingResult& r) {
    if (r.trained_steps == 0)
        return fmt::format(": nothing was trained, they were done before; --resume --set train.steps={} trains on",
                           2 * r.steps);
    return fmt::format(" in {:.1f} s ({:.0f} tokens/s)", r.seconds, r.tokens_per_s);
}

void report(const SharedRun& run, bool json) {
    const TrainingResult& r = run.result;
    if (json) {
        Json out = Json::object();
        out.set("steps", r.steps).set("trained_steps", r.trained_steps).set("stopped", r.stopped);
        out.set("parameters", r.parameters);
        if (!r.stopped) out.set("train_loss", r.train_loss).set("validation_loss", r.validation_loss);
        out.set("tokens_per_s", r.tokens_per_s).set("step_time_s", r.step_time_s).set("seconds", r.seconds);
        out.set("exposed_comm_s", r.exposed_comm_s);
        Json peaks = Json::array();
        for (const BytesByKind& peak : r.peak_bytes) peaks.push(to_json(peak));
        out.set("peak_bytes", to_json(r.peak_bytes.front())).set("peak_bytes_of_ranks", std::move(peaks));
        out.set("run_folder", run.folder->path().string());
        if (!r.stopped) out.set("sample", r.sample);
        print(out.dump() + "\n");
        return;
    }
    if (r.stopped) {
        print(fmt::format("stopped after step {} of {}; --resume goes on from {}\n", r.steps, run.job.train.steps,
                          printable(run.folder->checkpoint(r.steps).string())));
        return;
    }
    print(fmt::format("\n{}\n\n", r.sample));
    print(fmt::format("train loss {:.4f}, validation loss {:.4f} after {}{}\n", r.train_loss, r.validation_loss,
                      counted(r.steps, "step"), what_was_trained(r)));
    const bool cached = std::filesystem::exists(run.folder->tokens());
    print(fmt::format("{}: config.toml, metrics.jsonl, loss.svg, sample.txt, checkpoints/{}\n",
                      printable(run.folder->path().string()), cached ? ", tokens.bin (a cache, may go)" : ""));
}

std::string checksum_text(std::uint64_t checksum) {
    return fmt::format("{:016x}", checksum);
}

// The newest checkpoint of the run folder, checked against what is asked for now.
CheckpointFile open_for_resume(const std::filesystem::path& folder, const Job& job, const Dataset& dataset) {
    const auto newest = RunFolder::newest_checkpoint(folder);
    if (!newest) throw UserError("{} holds no checkpoint to resume from: --overwrite begins anew", folder.string());
    CheckpointFile file(*newest);
    const std::string source = newest->string();
    const Json* step = file.metadata().find("step");
    const Json* saved_job = file.metadata().find("job");
    const Json* text = file.metadata().find("text_xxh64");
    if (step == nullptr || step->integer() == nullptr || *step->integer() < 0 || saved_job == nullptr)
        throw UserError("{}: no checkpoint of a training run (no step or job in its metadata)", source);
    auto differences = resume_differences(job_from_json(*saved_job, source), job);
    if (text == nullptr)
        throw UserError(
            "{}: weights without a run's state, nothing to resume; model.weights = \"{}\" in another run "
            "begins with them",
            source, folder.string());
    const Json hash = checksum_text(dataset.text_hash());
    if (*step->integer() > job.train.steps)
        differences.refused.push_back(
            fmt::format("train.steps: found {}, but {} has done {} already; accepted: at least {}, or --overwrite "
                        "instead of --resume, which begins anew",
                        job.train.steps, source, *step->integer(), *step->integer()));
    if (*text != hash)
        differences.refused.push_back(
            fmt::format("data.path: {} is another text than the checkpoint was trained on", job.data.path));
    // Checkpoints from before there were masks have learnt every label.
    const Json* mask = file.metadata().find("mask_xxh64");
    const Json saved_mask = mask == nullptr ? Json(checksum_text(0)) : *mask;
    if (saved_mask != Json(checksum_text(dataset.mask_hash())))
        differences.announced.push_back(fmt::format("data.mask: the labels are others than those of {}", source));
    const Json* tokenizer = file.metadata().find("tokenizer");
    if (job.data.tokenizer == TokenizerKind::bpe &&
        (tokenizer == nullptr || *tokenizer != dataset.tokenizer().to_json()))
        differences.refused.push_back(
            fmt::format("data.tokenizer_file: {} is another tokenizer than the checkpoint was trained with",
                        job.data.tokenizer_file));
    throw_problems(differences.refused);
    for (const std::string& line : differences.announced)
        log_warning("the run will not equal an unbroken one: {}", line);
    return file;
}

int threads_of_a_rank(int ranks) {
    return team_size(comm::under_mpirun() ? comm::process_place().local_count : ranks);
}

// A run that is resumed has its tokenizer in its folder: the original may be gone.
Job::Data data_of(const TrainOptions& options) {
    Job::Data data = options.job.data;
    const auto copy = RunFolder::tokenizer_in(options.job.run.folder);
    const bool bpe = data.tokenizer == TokenizerKind::bpe;
    if (options.resume && bpe && !std::filesystem::exists(data.tokenizer_file) && std::filesystem::exists(copy))
        data.tokenizer_file = copy.string();
    return data;
}

// The job as it will run, checked against its text.
Job checked_job(const TrainOptions& options, const Dataset& dataset) {
    Job job = options.job;
    if (job.model.vocabulary == 0) job.model.vocabulary = dataset.tokenizer().vocabulary();
    const std::vector<std::string> problems = check(job, options.ranks, &dataset);
    if (!problems.empty())
        throw_problems(problems,
                       nearest_layouts_text(nearest_layouts(job, options.ranks, RanksFrom::given), as_set, false));
    return job;
}

// What a run that fails leaves to go on from.
std::string what_stays(const std::filesystem::path& folder) {
    const auto newest = RunFolder::newest_checkpoint(folder);
    return newest ? fmt::format("; {} stays, --resume goes on from it", newest->string())
                  : std::string("; no checkpoint had been written before");
}

// What the ranks must have in common. Where a file lies may differ from host to host; what it holds may not.
// `weights`: null where the run begins with others.
Json common_part(const Job& job, const Dataset& dataset, const WeightsSource* weights) {
    constexpr std::string_view kPlaces[] = {"data.path", "data.tokenizer_file", "data.mask", "model.weights",
                                            "run.folder"};
    Json common = Json::object();
    const Json all = to_json(job);
    for (const auto& [key, value] : *all.members())
        if (std::find(std::begin(kPlaces), std::end(kPlaces), key) == std::end(kPlaces)) common.set(key, value);
    if (weights != nullptr) common.set("the initial weights' checksum", checksum_text(weights->hash()));
    common.set("the tokenizer", dataset.tokenizer().to_json());
    common.set("the mask's checksum", checksum_text(dataset.mask_hash()));
    return common.set("the text's checksum", checksum_text(dataset.text_hash()));
}

// How the other ranks' documents differ from the first one's, a line each.
std::string differences_of(const std::vector<std::string>& documents) {
    std::string lines;
    Json first;
    for (std::size_t rank = 0; rank < documents.size(); ++rank) {
        const Json its = Json::parse(documents[rank], "the configuration of a rank");
        if (rank == 0) first = its;
        for (const auto& [key, value] : *first.members())
            if (const Json* other = its.find(key); other == nullptr || *other != value)
                lines += fmt::format("\n  - {}: {} on rank 0, {} on rank {}", key, value.dump(),
                                     other == nullptr ? "nothing" : other->dump(), rank);
    }
    return lines;
}

// Under MPI each process reads its own command line. Throws the same UserError on every rank where they differ.
void check_agreement(comm::Communicator& world, const Json& own) {
    std::string lines = differences_of(gather_text(world, own.dump()));  // on rank 0
    auto size = static_cast<std::int64_t>(lines.size());
    world.broadcast(&size, 1, DType::i64, 0).wait();
    if (size == 0) return;
    lines.resize(static_cast<std::size_t>(size));
    world.broadcast(lines.data(), size, DType::u8, 0).wait();
    throw UserError("the ranks' configurations differ; every rank needs the same run file, --set and text{}", lines);
}

RunFolder::Mode folder_mode(const TrainOptions& options) {
    if (options.resume) return RunFolder::Mode::resume;
    return options.overwrite ? RunFolder::Mode::overwrite : RunFolder::Mode::fresh;
}

// `folder`: null in processes that do not hold rank 0.
int train_in(RunFolder* folder, const TrainOptions& options) {
    const std::filesystem::path path = options.job.run.folder;
    // Threads share one mapped file of tokens; under MPI each process keeps its own in memory.
    const bool mapped = !comm::under_mpirun();
    const Dataset dataset = Dataset::open(data_of(options), mapped ? std::optional(folder->tokens()) : std::nullopt,
                                          options.job.model.vocabulary);
    const Job job = checked_job(options, dataset);
    check_memory(job, options.ranks, threads_of_a_rank(options.ranks));
    std::optional<CheckpointFile> checkpoint;
    if (options.resume) checkpoint.emplace(open_for_resume(path, job, dataset));
    std::optional<WeightsSource> weights;
    if (!options.resume && !job.weights.empty()) weights.emplace(job.weights);
    const Mesh mesh = mesh_of(job, options.ranks);
    SharedRun shared{job, mesh, dataset, checkpoint ? &*checkpoint : nullptr, folder, threads_of_a_rank(options.ranks),
                     {}};
    if (weights) shared.weights = &*weights;
    const Json common = common_part(job, dataset, shared.weights);
    std::atomic<bool> begun = false;
    try {
        comm::run_ranks(launch_options(job, options.ranks), [&](comm::Communicator& world) {
            set_thread_rank(world.rank());
            check_agreement(world, common);
            TrainingRun run(shared, world);
            if (world.rank() == 0) folder->begin(options.config_text, dataset.tokenizer().file_text());
            begun = true;
            run.run();
            if (world.rank() == 0) report(shared, options.json);
        });
    } catch (const RunError& error) {
        throw RunError("{}{}", error.what(), what_stays(path));
    } catch (const UserError& error) {
        if (!begun) throw;
        throw UserError("{}{}", error.what(), what_stays(path));
    }
    return shared.stopped ? kExitStopped : kExitOk;
}

int train(const TrainOptions& options) {
    // Under mpirun every process gets the launcher's signals, and one answers.
    install_stop_handler(comm::process_place().rank == 0);
    std::optional<RunFolder> folder;
    if (comm::process_place().rank == 0) folder.emplace(options.job.run.folder, folder_mode(options));
    try {
        return train_in(folder ? &*folder : nullptr, options);
    } catch (...) {
        if (folder) folder->abandon();
        throw;
    }
}

int plan_only(const TrainOptions& options) {
    const Dataset dataset = Dataset::open(data_of(options), std::nullopt, options.job.model.vocabulary);
    const Job job = checked_job(options, dataset);
    const auto transport = comm::under_mpirun() ? comm::TransportKind::mpi : comm::TransportKind::inproc;
    const auto plans = dry_run(job, options.ranks, transport, threads_of_a_rank(options.ranks));
    const auto notes = layout_notes(job, data_parallel_ranks(job, options.ranks));
    if (comm::process_place().rank == 0)
        print(options.json ? dry_run_json(plans, notes).dump() + "\n" : dry_run_text(plans, notes));
    return kExitOk;
}

}  // namespace

int run_training(const TrainOptions& options) {
    return options.dry_run ? plan_only(options) : train(options);
}

}  // namespace cleave
