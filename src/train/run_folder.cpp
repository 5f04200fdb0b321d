#include "train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <iterator>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
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

std::string checkpoint_name(std::int64_t step) {
    return fmt::format("{}{:09}{}", kCheckpointStart, step, kCheckpointEnd);
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

// What cannot be written is told before the run, not when its first checkpoint is lost.
void check_writable(const fs::path& folder) {
    if (::euidaccess(folder.c_str(), W_OK | X_OK) != 0)
        throw UserError("cannot write into the folder {}: {}; accepted: a run.folder that this user may write to",
                        folder.string(), std::generic_category().message(errno));
}

// The steps of its checkpoints, rising.
std::vector<std::int64_t> steps_in(const fs::path& checkpoints) {
    std::vector<std::int64_t> steps;
    for (const fs::path& file : files_in(checkpoints))
        if (const auto step = step_of(file.filename().string())) steps.push_back(*step);
    std::sort(steps.begin(), steps.end());
    return steps;
}

// AtomicFile's temporary files, "metrics.jsonl.<process>-<number>.tmp", of a process that was killed.
bool is_unfinished(const fs::path& file) {
    constexpr std::string_view kOwn[] = {"latest",     "config.toml", "metrics.jsonl", "loss.svg",
                                         "sample.txt", "trace.json",  "tokens.bin",    "tokenizer.json"};
    const std::string target = file.stem().stem().string();  // without ".tmp" and ".<process>-<number>"
    const bool own = step_of(target) || std::find(std::begin(kOwn), std::end(kOwn), target) != std::end(kOwn);
    return own && file.extension() == ".tmp";
}

// What a run that was killed before it began may have left.
bool is_leftover(const fs::path& file) {
    if (is_unfinished(file)) return true;
    if (file.filename() == "checkpoints") return fs::is_directory(file) && files_in(file).empty();
    return file.filename() == "tokens.bin" && fs::is_regular_file(file) && is_checkpoint_file(file);
}

bool is_configuration(const fs::path& file) {
    if (!fs::is_regular_file(file)) return false;
    const std::string text = read_text_file(file);
    return text.find("[model]") != text.npos && text.find("[train]") != text.npos;
}

// The first names of a folder, for a message.
std::string some_names(const fs::path& folder) {
    constexpr std::size_t kMost = 3;
    std::vector<std::string> names;
    for (const fs::path& file : files_in(folder)) names.push_back(fmt::format("'{}'", file.filename().string()));
    std::sort(names.begin(), names.end());
    const bool more = names.size() > kMost;
    names.resize(std::min(names.size(), kMost));
    return fmt::format("{}{}", fmt::join(names, ", "), more ? ", ..." : "");
}

// The newest checkpoint that is whole. `lost`: what is wrong with `latest`.
fs::path newest_whole(const fs::path& checkpoints, std::vector<std::int64_t> steps, const std::string& lost) {
    std::string damage;
    for (; !steps.empty(); steps.pop_back()) {
        fs::path file = checkpoints / checkpoint_name(steps.back());
        try {
            CheckpointFile whole(file);
            log_warning("{}; taking the newest whole checkpoint beside it, {}", lost, file.string());
            return file;
        } catch (const UserError& error) {
            damage += fmt::format("\n  - {}", error.what());
        }
    }
    throw UserError("{}, and no checkpoint beside it is whole{}", lost, damage);
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
    if (mode == Mode::resume && was_empty_)
        throw UserError("there is no run folder {} to resume: leave out --resume for a new run", path_.string());
    if (!was_empty_) check_content();
    create_folder(path_, created_);
    lock();
}

bool RunFolder::is_one(const fs::path& path) {
    const fs::path checkpoints = path / "checkpoints";
    if (!steps_in(checkpoints).empty()) return true;
    if (fs::is_directory(checkpoints) && is_configuration(path / "config.toml")) return true;
    const auto files = files_in(path);
    return !files.empty() && std::all_of(files.begin(), files.end(), is_leftover);
}

void RunFolder::check_content() const {
    if (!is_one(path_))
        throw UserError("the folder {} holds what no run has made ({}): {}; --set run.folder=... takes another",
                        path_.string(), some_names(path_),
                        mode_ == Mode::resume ? "there is no run to resume in it"
                                              : "accepted are a new or an empty folder, and that of a run");
    if (mode_ == Mode::fresh)
        throw UserError("the run folder {} exists: {}--overwrite begins anew, --set run.folder=... takes another",
                        path_.string(),
                        steps_in(checkpoints()).empty() ? "" : "--resume goes on with its newest checkpoint, ");
}

// The system gives the lock back when the process ends, however it ends. A file system without locks has none to give.
void RunFolder::lock() {
    lock_ = FileDescriptor(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (lock_.is_open() && ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        throw UserError("another run is writing to the run folder {}: wait until it ends, or take another folder",
                        path_.string());
}

void RunFolder::begin(const std::string& config_text, std::string_view tokenizer_text) {
    check_writable(path_);
    create_folder(checkpoints(), created_);
    check_writable(checkpoints());
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

void RunFolder::remove_unfinished() const {
    for (const fs::path& folder : {path_, checkpoints()})
        for (const fs::path& file : files_in(folder))
            if (is_unfinished(file)) discard(file);
}

void RunFolder::abandon() {
    if (begun_) return;
    if (was_empty_) discard(tokens());
    std::for_each(created_.rbegin(), created_.rend(), discard);
    created_.clear();
}

fs::path RunFolder::checkpoint(std::int64_t step) const {
    return checkpoints() / checkpoint_name(step);
}

std::optional<fs::path> RunFolder::newest_checkpoint(const fs::path& path) {
    const fs::path checkpoints = path / "checkpoints";
    std::string lost = fmt::format("'{}' is missing", (checkpoints / "latest").string());
    auto steps = steps_in(checkpoints);
    try {
        if (auto named = latest_checkpoint(checkpoints)) return named;
        if (steps.empty()) return std::nullopt;
    } catch (const UserError& error) {
        lost = error.what();
    }
    return newest_whole(checkpoints, std::move(steps), lost);
}

fs::path RunFolder::tokenizer_of(const fs::path& checkpoint) {
    return tokenizer_in(fs::absolute(checkpoint).parent_path().parent_path());
}

void RunFolder::remove_checkpoints_before(std::int64_t step) const {
    std::vector<std::int64_t> earlier = steps_in(checkpoints());
    std::erase_if(earlier, [step](std::int64_t other) { return other >= step; });
    if (!earlier.empty()) earlier.pop_back();
    for (std::int64_t other : earlier) discard(checkpoint(other));
}

}  // namespace cleave
