#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/wrap.h"
#include "cli/command.h"
#include "config/run_file.h"
#include "train/job_keys.h"

namespace cleave::cli {
namespace {

constexpr std::size_t kColumns = 80;

class ConfigCommand : public Command {
  public:
    std::string name() const override { return "config"; }
    std::string summary() const override { return "list every key: type, default, meaning"; }
    std::string examples() const override {
        return "  cleave config          every key\n"
               "  cleave config train    those of [train]\n"
               "  cleave config --json   the same for programs";
    }
    void declare(Options& options) override {
        options.positional("SECTION", section_, "only the keys of this section, or one key", false);
    }

    int run() override {
        Job job;
        std::vector<Key> keys = keys_of(job);
        if (!section_.empty()) keep_section(keys);
        print(json ? as_json(keys) : as_table(keys));
        return 0;
    }

  private:
    void keep_section(std::vector<Key>& keys) const {
        std::vector<std::string_view> names;
        std::string sections;
        for (const Key& key : keys) {
            if (names.empty() || key.section() != names.back().substr(0, names.back().find('.'))) {
                sections += fmt::format("{}{}", sections.empty() ? "" : ", ", key.section());
                names.push_back(key.section());
            }
            names.push_back(key.name);
        }
        std::erase_if(keys, [&](const Key& key) { return key.section() != section_ && key.name != section_; });
        if (!keys.empty()) return;
        const auto near = nearest(section_, names);
        throw UserError("there is no section or key '{}'{}", section_,
                        near.empty() ? "; sections: " + sections : fmt::format(" (did you mean '{}'?)", near));
    }

    static std::string as_json(const std::vector<Key>& keys) {
        Json list = Json::array();
        for (const Key& key : keys)
            list.push(Json{{"key", key.name},
                           {"type", type_name(key)},
                           {"default", std::visit([](const auto& value) { return Json(value); }, value_of(key))},
                           {"accepted", accepted(key)},
                           {"meaning", key.meaning}});
        return Json{{"keys", std::move(list)}}.dump(2) + "\n";
    }

    static std::string as_table(const std::vector<Key>& keys) {
        std::size_t name_width = 0;
        std::size_t value_width = 0;
        for (const Key& key : keys) {
            name_width = std::max(name_width, key.name.size());
            value_width = std::max(value_width, value_text(value_of(key)).size());
        }
        std::string text;
        std::string_view section;
        for (const Key& key : keys) {
            if (key.section() != section) {
                section = key.section();
                text += fmt::format("{}[{}]  {}\n", text.empty() ? "" : "\n", section, section_title(section));
            }
            const std::string start =
                fmt::format("  {:<{}}  {:<{}}  ", key.name, name_width, value_text(value_of(key)), value_width);
            text += start + wrapped(explained(key), std::string(start.size(), ' '), kColumns) + "\n";
        }
        return text;
    }

    std::string section_;
};

}  // namespace

std::unique_ptr<Command> make_config_command() {
    return std::make_unique<ConfigCommand>();
}

}  // namespace cleave::cli
