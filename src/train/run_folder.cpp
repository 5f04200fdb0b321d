#include "train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "base/error.h"
#include "base/file.h"
#include "train/checkpoint_file.h"

namespace cleave {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kCheckpointStart = "step_";
constexpr std::string_view kCheckpointEnd = ".ckpt";

// The step of a checkpoint's file name; none where it is no such name.
std::optional<std::int64_t> step_of(std::string_view name) {
    if (!name.starts_with(kCheckpointStart) || !name.ends_with(kCheckpointEnd)) return std::nullopt;
    name.remove_prefix(kCheckpointStart.size());
    name.remove_suffix(kCheckpointEnd.size());
    std::int64_t step = 0;
    const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), step);
    if (problem != std::errc() || end != name.data() + name.size()) return std::nullopt;
    return step;
}

// The files of `folder` by name; empty where it cannot be read.
std::vector<fs::path> files_in(const fs::path& folder) {
    std::vector<fs::path> found;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none)) found.push_back(entry.path());
    return found;
}

void create_folder(const fs::path& path, std::vector<fs::path>& created) {
    std::error_code problem;
    if (path.empty() || fs::is_directory(path, problem)) return;
    create_folder(path.parent_path(), created);
    if (fs::create_directory(path, problem)) created.push_back(path);
    if (problem) throw UserError("cannot create the folder {}: {}", path.string(), problem.message());
}

// Removes a file or an empty folder; what cannot be removed stays.
void discard(const fs::path& path) {
    std::error_code ignored;
    fs::remove(path, ignored);
}

}  // namespace

RunFolder::RunFolder(fs::path path, Mode mode) : path_(std::move(path)), mode_(mode) {
    std::error_code ignored;
    const bool exists = fs::exists(path_, ignored);
    if (exists && !fs::is_directory(path_, ignored))
        throw UserError("run.folder: {} is a file; a folder would be accepted", path_.string());
    was_empty_ = !exists || files_in(path_).empty();
    if (mode == Mode::fresh && !was_empty_)
        throw UserError(
            "the run folder {} exists: --resume goes on with its newest checkpoint, --overwrite begins anew, "
            "--set run.folder=... takes another",
            path_.string());
    if (mode == Mode::resume && !exists)
        throw UserError("there is no run folder {} to resume: leave out --resume for a new run", path_.string());
    create_folder(path_, created_);
    lock();
}

// The system gives the lock back when the process ends, however it ends. A file system without locks has none to give.
void RunFolder::lock() {
    lock_ = FileDescriptor(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (lock_.is_open() && ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        throw UserError(
            "another run is writing to the run folder {}: wait until it ends, or take another with --set "
            "run.folder=...",
            path_.string());
}

void RunFolder::begin(const std::string& config_text, std::string_view tokenizer_text) {
    create_folder(checkpoints(), created_);
    if (mode_ == Mode::overwrite) remove_run();
    remove_unfinished();
    write_file(config(), config_text);
    if (!tokenizer_text.empty()) write_file(tokenizer(), tokenizer_text);
    begun_ = true;
}

void RunFolder::remove_run() const {
    for (const fs::path& file : {metrics(), loss_plot(), sample(), trace(), tokenizer(), checkpoints() / "latest"})
        discard(file);
    for (const fs::path& file : files_in(checkpoints()))
        if (step_of(file.filename().string())) discard(file);
}

// AtomicFile's temporary files, "metrics.jsonl.<process>-<number>.tmp", of a process that was killed.
void RunFolder::remove_unfinished() const {
    const auto unfinished = [](const fs::path& file) {
        const fs::path target = file.stem().stem();  // without ".tmp" and ".<process>-<number>"
        const bool own = step_of(target.string()) || target == "latest" || target == "config.toml" ||
                         target == "metrics.jsonl" || target == "loss.svg" || target == "sample.txt" ||
                         target == "trace.json" || target == "tokens.bin" || target == "tokenizer.json";
        return own && file.extension() == ".tmp";
    };
    for (const fs::path& folder : {path_, checkpoints()})
        for (const fs::path& file : files_in(folder))
            if (unfinished(file)) discard(file);
}

void RunFolder::abandon() {
    if (begun_) return;
    if (was_empty_) discard(tokens());
    std::for_each(created_.rbegin(), created_.rend(), discard);
    created_.clear();
}

fs::path RunFolder::checkpoint(std::int64_t step) const {
    return checkpoints() / fmt::format("{}{:09}{}", kCheckpointStart, step, kCheckpointEnd);
}

std::optional<fs::path> RunFolder::newest_checkpoint(const fs::path& path) {
    return latest_checkpoint(path / "checkpoints");
}

fs::path RunFolder::tokenizer_of(const fs::path& checkpoint) {
    return tokenizer_in(fs::absolute(checkpoint).parent_path().parent_path());
}

void RunFolder::remove_checkpoints_before(std::int64_t step) const {
    std::vector<std::int64_t> earlier;
    for (const fs::path& file : files_in(checkpoints()))
        if (const auto other = step_of(file.filename().string()); other && *other < step) earlier.push_back(*other);
    std::sort(earlier.begin(), earlier.end());
    if (!earlier.empty()) earlier.pop_back();
    for (std::int64_t other : earlier) discard(checkpoint(other));
}

}  // namespace cleave
