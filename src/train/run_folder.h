// The folder that a run leaves behind:
//   config.toml     the effective configuration          metrics.jsonl   one line a step and an evaluation
//   checkpoints/    step_<n>.ckpt and `latest`           loss.svg        the losses as a picture
//   sample.txt      generated at the end                 trace.json      the traced step (run.trace_step)
//   tokens.bin      the text as tokens                   tokenizer.json  a copy of data.tokenizer_file
// tokens.bin is a cache: it may be removed at any time between runs, and is built again.
// One run at a time: the folder is locked while a RunFolder exists. A folder that holds anything is refused unless a
// run made it, and this one resumes or overwrites; overwriting removes these files and no others. Thread rule: one
// thread (rank 0's).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"

namespace cleave {

class RunFolder {
  public:
    enum class Mode : std::uint8_t { fresh, resume, overwrite };

    // Whether a run made what `path` holds: checkpoints by our names, or a run's configuration beside the folder for
    // them, or nothing but tokens and unfinished files of a run that was killed before it began.
    static bool is_one(const std::filesystem::path& path);

    // Throws UserError where the folder cannot be used so, or another run is using it; creates it otherwise.
    RunFolder(std::filesystem::path path, Mode mode);

    // Before the first step: removes what an overwritten run left, and what a killed one had not finished writing, and
    // writes the configuration and the tokenizer (where it is a file's, else empty).
    void begin(const std::string& config_text, std::string_view tokenizer_text = {});
    // Where the run did not begin: removes what this object created, so that the next try is not refused.
    void abandon();

    std::filesystem::path config() const { return path_ / "config.toml"; }
    std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
    std::filesystem::path loss_plot() const { return path_ / "loss.svg"; }
    std::filesystem::path sample() const { return path_ / "sample.txt"; }
    std::filesystem::path trace() const { return path_ / "trace.json"; }
    std::filesystem::path tokens() const { return path_ / "tokens.bin"; }
    std::filesystem::path tokenizer() const { return tokenizer_in(path_); }
    static std::filesystem::path tokenizer_in(const std::filesystem::path& run) { return run / "tokenizer.json"; }
    std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
    std::filesystem::path checkpoint(std::int64_t step) const;
    const std::filesystem::path& path() const { return path_; }

    // The newest checkpoint of the run in `path`: what `latest` names; where that is lost, the newest that is whole,
    // with a warning. None where there is none. Throws UserError where there are some and none can be used.
    static std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& path);
    // Where the tokenizer.json stands that goes with a checkpoint of a run.
    static std::filesystem::path tokenizer_of(const std::filesystem::path& checkpoint);
    // Removes all but this one and the one before it.
    void remove_checkpoints_before(std::int64_t step) const;

  private:
    void check_content() const;
    void lock();
    void remove_run() const;
    void remove_unfinished() const;

    std::filesystem::path path_;
    Mode mode_;
    bool was_empty_;                              // or was not there
    std::vector<std::filesystem::path> created_;  // folders, the outermost first
    FileDescriptor lock_;
    bool begun_ = false;
};

}  // namespace cleave
