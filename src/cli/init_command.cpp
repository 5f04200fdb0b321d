#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "config/run_file.h"

namespace cleave::cli {
namespace {

class InitCommand : public Command {
  public:
    std::string name() const override { return "init"; }
    std::string summary() const override { return "write a commented run file to begin with"; }
    std::string examples() const override {
        return "  cleave init my.toml --data any.txt\n"
               "  cleave init > my.toml\n"
               "  cleave train my.toml";
    }
    void declare(Options& options) override {
        options.positional("RUN.toml", path_, "the file to write (default: standard output)", false);
        options.text("--data", "FILE", data_, "the text to learn from (default: text.txt, to be changed)");
        options.flag("--overwrite", overwrite_, "replace the file if it exists");
    }

    int run() override {
        namespace fs = std::filesystem;
        if (path_.empty()) {
            const std::string text = text_for(data_.empty() ? "text.txt" : data_);
            print(json ? Json{{"text", text}}.dump(2) + "\n" : text);
            return 0;
        }
        if (fs::exists(path_) && !overwrite_)
            throw UserError("'{}' exists; give another name, or --overwrite to replace it", path_);
        // In a run file, a relative path is relative to the file's folder.
        const fs::path folder = fs::absolute(path_).lexically_normal().parent_path();
        const fs::path absolute =
            fs::absolute(data_.empty() ? folder / "text.txt" : fs::path(data_)).lexically_normal();
        const fs::path relative = absolute.lexically_relative(folder);
        const fs::path& data = *relative.begin() == ".." ? absolute : relative;
        write_file(path_, text_for(data.string()));
        const std::string next = fmt::format("cleave train {}", path_);
        if (json) {
            print(Json{{"run_file", path_}, {"next", next}}.dump(2) + "\n");
        } else {
            print(fmt::format("wrote {}\n{}next: {}\n", path_,
                              data_.empty() ? "set data.path in it to your text\n" : "", next));
        }
        return 0;
    }

  private:
    static std::string text_for(const std::string& data) {
        if (!is_utf8(data))
            throw UserError("--data: found {}; accepted: a path in UTF-8, as a run file is", Json(data).dump());
        return commented_run_file(data);
    }

    std::string path_;
    std::string data_;
    bool overwrite_ = false;
};

}  // namespace

std::unique_ptr<Command> make_init_command() {
    return std::make_unique<InitCommand>();
}

}  // namespace cleave::cli
