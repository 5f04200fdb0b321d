#include "train/run_folder.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace cleave {

namespace fs = std::filesystem;

namespace {

bool holds_anything(const fs::path& path) {
    std::error_code ignored;
    return fs::exists(path, ignored) && (!fs::is_directory(path, ignored) || !fs::is_empty(path, ignored));
}

std::vector<fs::path> checkpoints_in(const fs::path& folder) {
    std::vector<fs::path> found;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none))
        if (entry.path().extension() == ".ckpt") found.push_back(entry.path());
    std::sort(found.begin(), found.end());
    return found;
}

}  // namespace

RunFolder::RunFolder(fs::path path, Mode mode) : path_(std::move(path)), mode_(mode) {
    std::error_code ignored;
    if (fs::exists(path_, ignored) && !fs::is_directory(path_, ignored))
        throw UserError("run.folder: {} is a file; a folder would be accepted", path_.string());
    if (mode == Mode::fresh && holds_anything(path_))
        throw UserError(
            "the run folder {} exists: --resume goes on with its newest checkpoint, --overwrite begins anew, "
            "--set run.folder=... takes another",
            path_.string());
    if (mode == Mode::resume && !fs::is_directory(path_, ignored))
        throw UserError("there is no run folder {} to resume: leave out --resume for a new run", path_.string());
    std::error_code problem;
    created_ = fs::create_directories(path_, problem);
    if (problem) throw UserError("cannot create the run folder {}: {}", path_.string(), problem.message());
}

void RunFolder::begin(const std::string& config_text) {
    std::error_code problem;
    fs::create_directories(checkpoints(), problem);
    if (problem) throw UserError("cannot create {}: {}", checkpoints().string(), problem.message());
    if (mode_ == Mode::overwrite) {
        for (const fs::path& file : {metrics(), loss_plot(), sample(), trace(), checkpoints() / "latest"})
            fs::remove(file, problem);
        for (const fs::path& file : checkpoints_in(checkpoints())) fs::remove(file, problem);
    }
    write_file(config(), config_text);
    begun_ = true;
}

void RunFolder::abandon() {
    if (!created_ || begun_) return;
    std::error_code ignored;
    fs::remove_all(path_, ignored);
}

fs::path RunFolder::checkpoint(std::int64_t step) const {
    return checkpoints() / fmt::format("step_{:09}.ckpt", step);
}

void RunFolder::remove_old_checkpoints() const {
    constexpr std::size_t kKept = 2;
    const auto found = checkpoints_in(checkpoints());
    std::error_code ignored;
    for (std::size_t i = 0; i + kKept < found.size(); ++i) fs::remove(found[i], ignored);
}

}  // namespace cleave
