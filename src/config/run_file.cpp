// The only file that includes toml++, which is heavy.
#include "config/run_file.h"

#include <toml++/toml.h>
#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/nearest.h"
#include "base/utf8.h"
#include "base/words.h"
#include "base/wrap.h"
#include "config/other_names.h"
#include "config/toml_nesting.h"
#include "train/job_keys.h"

namespace cleave {
namespace {

constexpr std::size_t kColumns = 80;
constexpr std::string_view kSet = "--set";
constexpr std::string_view kNoKey = "expected section.key=value, for instance --set train.steps=100";
constexpr std::size_t kMostRunFileBytes = 1 << 20;  // one with every key and its meaning has 20 KB

std::optional<Value> value_of(const toml::node& node) {
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* truth = node.as_boolean()) return truth->get();
    if (const auto* whole = node.as_integer()) return whole->get();
    if (const auto* real = node.as_floating_point()) return real->get();
    return std::nullopt;
}

std::string trimmed(std::string_view text) {
    const auto first = std::min(text.find_first_not_of(" \t"), text.size());
    return std::string(text.substr(first, text.find_last_not_of(" \t") + 1 - first));
}

// "an array", for messages.
std::string kind_of(const toml::node& node) {
    if (node.is_array()) return "a list";
    if (node.is_table()) return "a section";
    return "a date or time";
}

// The files and folders that a job reads.
std::array<std::string*, 5> files_of(Job& job) {
    return {&job.data.path, &job.data.tokenizer_file, &job.data.mask, &job.weights, &job.pipeline.schedule_file};
}

using Places = std::map<std::string, std::string, std::less<>>;

bool is_flag(const std::string& place) {
    return place.starts_with("--") && place != kSet;
}

// The names of keys that were set by an option, wherever they stand as a word, as that option.
std::string in_flags(const Places& places, std::string text) {
    const auto part_of_name = [](char c) {
        return c == '_' || c == '.' || std::isalnum(static_cast<unsigned char>(c));
    };
    for (const auto& [key, place] : places) {
        if (!is_flag(place)) continue;
        for (std::size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + 1)) {
            const std::size_t end = at + key.size();
            if ((at > 0 && part_of_name(text[at - 1])) || (end < text.size() && part_of_name(text[end]))) continue;
            text.replace(at, key.size(), place);
        }
    }
    return text;
}

// "train.batch: found ..." as "my.toml:12: train.batch: found ...".
std::string with_place(const Places& places, const std::string& problem) {
    const auto at = places.find(problem.substr(0, problem.find(':')));
    if (at == places.end() || is_flag(at->second)) return in_flags(places, problem);
    return at->second + (at->second == kSet ? " " : ": ") + in_flags(places, problem);
}

// What is wrong with a line that toml++ refuses, where people write it often.
std::string_view toml_hint(std::string_view text, std::size_t line) {
    for (; line > 1 && !text.empty(); --line) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
    text = text.substr(0, text.find('\n'));
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) return "";
    const std::string value = trimmed(text.substr(equals + 1, text.find('#') - std::min(equals + 1, text.find('#'))));
    return number_in_full(value) ? "; a number has digits on both sides of its point: 0.1, not .1" : "";
}

class Reader {
  public:
    explicit Reader(const std::filesystem::path& path) : path_(path), keys_(keys_of(job_)) {
        for (const Key& key : keys_) {
            names_.push_back(key.name);
            if (std::find(sections_.begin(), sections_.end(), key.section()) == sections_.end())
                sections_.push_back(key.section());
        }
    }
    Reader(const Reader&) = delete;

    void read_text(std::string_view text) {
        if (const auto line = too_deep_line(text))
            throw UserError("{}: nested deeper than {}; accepted: [section], and key = value below it", place(*line),
                            kMostTomlNesting);
        toml::table table;
        try {
            table = toml::parse(text, path_.string());
        } catch (const toml::parse_error& error) {
            const auto at = error.source().begin;
            throw UserError("{}: not valid TOML (column {}): {}{}", place(at.line), at.column, error.description(),
                            toml_hint(text, at.line));
        }
        for (auto&& [name, node] : table) read_section(name.str(), node);
        for (std::string* file : files_of(job_)) make_relative_to_folder(*file);
    }

    // An absolute path stays as it is.
    void make_relative_to_folder(std::string& file) const {
        if (!file.empty() && path_.has_parent_path()) file = (path_.parent_path() / file).lexically_normal().string();
    }

    void read_set(const std::string& set) {
        const auto equals = set.find('=');
        if (equals == std::string::npos) {
            add_set(set, std::string(kNoKey));
            return;
        }
        const std::string name = trimmed(set.substr(0, equals));
        if (name.empty()) {
            add_set(set, std::string(kNoKey));
            return;
        }
        const Key* key = find(name);
        if (key != nullptr) places_[name] = kSet;
        if (key == nullptr) {
            add_set(set, unknown(name));
        } else if (const auto problem = assign(*key, set_value(*key, set.substr(equals + 1)))) {
            add_set(set, fmt::format("{}: {}", name, *problem));
            refused_.insert(name);
        }
    }

    void read_flag(const TypedFlag& flag) {
        const Key* key = find(flag.key);
        CLEAVE_CHECK(key != nullptr, "{} stands for {}", flag.flag, flag.key);
        places_[flag.key] = flag.flag;
        const auto problem = assign(*key, set_value(*key, flag.value));
        if (!problem) return;
        problems_.push_back({std::numeric_limits<std::size_t>::max(), fmt::format("{}: {}", flag.flag, *problem)});
        refused_.insert(flag.key);
    }

    RunFile finish() {
        if (job_.run.folder.empty()) job_.run.folder = "out/" + path_.stem().string();
        follow_other_keys(job_, [&](std::string_view key) { return places_.find(key) != places_.end(); });
        check_texts();
        std::stable_sort(problems_.begin(), problems_.end(),
                         [](const Problem& a, const Problem& b) { return a.line < b.line; });
        RunFile file{job_, {}, std::move(places_), std::move(refused_)};
        for (const Problem& problem : problems_) file.problems.push_back(problem.text);
        return file;
    }

  private:
    struct Problem {
        std::size_t line;  // those of --set come last
        std::string text;
    };
    std::string place(std::size_t line) const { return fmt::format("{}:{}", path_.string(), line); }
    void add(std::size_t line, const std::string& problem) {
        problems_.push_back({line, place(line) + ": " + problem});
    }
    void add(const toml::node& node, const std::string& problem) { add(node.source().begin.line, problem); }
    void add_set(const std::string& set, const std::string& problem) {
        problems_.push_back(
            {std::numeric_limits<std::size_t>::max(), fmt::format("--set {}: {}", shortened(set), problem)});
    }
    bool is_path(const Key& key) {
        const auto* field = std::get_if<std::string*>(&key.field);
        const auto files = files_of(job_);
        return field != nullptr &&
               (*field == &job_.run.folder || std::find(files.begin(), files.end(), *field) != files.end());
    }
    // A run file is UTF-8: the effective one could not say what others do. The system would read a path up to its NUL:
    // another file.
    void check_texts() {
        for (const Key& key : keys_) {
            const Value value = value_of(key);
            const auto* text = std::get_if<std::string>(&value);
            if (text == nullptr) continue;
            const bool cut = is_path(key) && text->find('\0') != text->npos;
            if (is_utf8(*text) && !cut) continue;
            const std::string problem = fmt::format("{}: found {}; accepted: {}", key.name, value_text(value),
                                                    cut ? "a path, which holds no NUL" : "a text in UTF-8");
            problems_.push_back({std::numeric_limits<std::size_t>::max(), with_place(places_, problem)});
            refused_.insert(std::string(key.name));
        }
    }
    const Key* find(std::string_view name) const {
        const auto at = std::find_if(keys_.begin(), keys_.end(), [&](const Key& key) { return key.name == name; });
        return at == keys_.end() ? nullptr : &*at;
    }

    // "unknown key 'train.stesp'; did you mean 'train.steps'?"
    std::string unknown(const std::string& name) const {
        std::string text = fmt::format("unknown key '{}'", shortened(name));
        const std::string_view section = std::string_view(name).substr(0, name.find('.'));
        std::string_view near = key_known_as(name);
        if (near.empty()) near = nearest(name, names_);
        if (near.empty()) near = same_key_elsewhere(std::string_view(name).substr(name.rfind('.') + 1));
        if (!near.empty()) return text + fmt::format(" (did you mean '{}'?)", near);
        std::string list;
        for (const Key& key : keys_)
            if (key.section() == section) list += fmt::format("{}{}", list.empty() ? "" : ", ", key.key());
        if (!list.empty()) return text + fmt::format("; [{}] has: {}", section, list);
        return text + "; `cleave config` lists all keys";
    }
    // "fsdp.stage is zero.stage here": of the keys in a section that we do not have.
    std::string keys_meant(std::string_view section, const toml::table& table) const {
        std::string text;
        for (auto&& [key, value] : table) {
            const std::string name = fmt::format("{}.{}", section, key.str());
            std::string_view near = key_known_as(name);
            if (near.empty()) near = same_key_elsewhere(key.str());
            if (!near.empty()) text += fmt::format("{}{} is {} here", text.empty() ? "" : ", ", name, near);
        }
        return text;
    }
    // "lr" or "model.lr" for train.lr.
    std::string_view same_key_elsewhere(std::string_view last) const {
        for (const Key& key : keys_)
            if (key.key() == last) return key.name;
        return {};
    }

    void read_section(std::string_view name, const toml::node& node) {
        const auto* table = node.as_table();
        const bool known = std::find(sections_.begin(), sections_.end(), name) != sections_.end();
        if (table == nullptr && find(name) != nullptr) {
            read_value(std::string(name), node);
        } else if (table == nullptr) {
            add(node, known ? fmt::format("'{}' is a section: write [{}] and its keys below", name, name)
                            : unknown(std::string(name)) + "; keys stand below their [section]");
        } else if (!known) {
            const auto near = nearest(name, sections_);
            std::string list;
            for (auto section : sections_)
                if (!section.empty()) list += fmt::format("{}[{}]", list.empty() ? "" : ", ", section);
            const std::string meant = keys_meant(name, *table);
            add(node, fmt::format("unknown section [{}]{}", name,
                                  !near.empty()    ? fmt::format(" (did you mean [{}]?)", near)
                                  : !meant.empty() ? "; " + meant
                                                   : "; accepted: " + list));
        } else {
            for (auto&& [key, value] : *table) read_value(fmt::format("{}.{}", name, key.str()), value);
        }
    }

    void read_value(const std::string& name, const toml::node& node) {
        const Key* key = find(name);
        if (key == nullptr) {
            add(node, unknown(name));
            return;
        }
        places_[name] = place(node.source().begin.line);
        const auto value = value_of(node);
        const auto problem =
            value ? assign(*key, *value) : fmt::format("found {}; accepted: {}", kind_of(node), accepted(*key));
        if (!problem) return;
        add(node, fmt::format("{}: {}", name, *problem));
        refused_.insert(name);
    }

    // A value after --set: as TOML reads it, and where it reads none, or the key holds text, the text itself.
    static Value set_value(const Key& key, const std::string& text) {
        const bool quoted =
            text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front();
        const bool plain = (type_name(key) == "text" || type_name(key) == "word") && !quoted;
        if (plain || text.find('\n') != std::string::npos || too_deep_line(text)) return text;
        try {
            const toml::table table = toml::parse("value = " + text);
            if (const auto value = value_of(*table.get("value"))) return *value;
        } catch (const toml::parse_error&) {
        }
        return text;
    }

    const std::filesystem::path& path_;
    Job job_;
    std::vector<Key> keys_;
    std::vector<std::string_view> names_;
    std::vector<std::string_view> sections_;
    std::vector<Problem> problems_;
    Places places_;
    std::set<std::string, std::less<>> refused_;
};

// "key = value", padded, with the meaning behind it.
template <class Line>
std::string by_section(Job& job, Line&& line) {
    std::string text;
    std::string_view section;  // keys without one come first
    for (const Key& key : keys_of(job)) {
        if (key.section() != section) {
            section = key.section();
            text += fmt::format("{}[{}]  # {}\n", text.empty() ? "" : "\n", section, section_title(section));
        }
        text += line(key);
    }
    return text;
}

}  // namespace

std::string RunFile::placed(const std::string& problem) const {
    return with_place(places, problem);
}

void RunFile::add(const std::vector<std::string>& found) {
    for (const std::string& problem : found) {
        if (refused.find(problem.substr(0, problem.find(':'))) != refused.end()) continue;
        std::string text = placed(problem);
        if (std::find(problems.begin(), problems.end(), text) == problems.end()) problems.push_back(std::move(text));
    }
}

RunFile read_run_file(const std::filesystem::path& path, const std::vector<std::string>& sets,
                      const std::vector<TypedFlag>& flags) {
    if (!std::filesystem::exists(path))
        throw UserError("there is no run file '{}'; `cleave init {}` writes one", path.string(), path.string());
    return parse_run(read_text_file(path, kMostRunFileBytes), path, sets, flags);
}

RunFile parse_run(std::string_view text, const std::filesystem::path& path, const std::vector<std::string>& sets,
                  const std::vector<TypedFlag>& flags) {
    Reader reader(path);
    reader.read_text(text);
    for (const TypedFlag& flag : flags) reader.read_flag(flag);
    for (const std::string& set : sets) reader.read_set(set);
    return reader.finish();
}

std::string effective_run_file(const Job& job) {
    Job copy = job;
    const auto make_absolute = [](std::string& file) {
        if (!file.empty()) file = std::filesystem::absolute(file).lexically_normal().string();
    };
    for (std::string* file : files_of(copy)) make_absolute(*file);
    make_absolute(copy.run.folder);
    return by_section(copy,
                      [](const Key& key) { return fmt::format("{} = {}\n", key.key(), value_text(value_of(key))); });
}

// What stands in a run file counts as set, which is more than a default: weights that are given bring their own model,
// unless keys of it are set. Only what a beginner must say is.
std::string commented_run_file(const std::string& data_path) {
    Job job;
    job.data.path = data_path;
    return "# A run of Cleave:   cleave train THIS_FILE --ranks 2\n"
           "# Every key is here with its default, behind a #: to set it, take the # away and\n"
           "# change the value. A single value can also be given as --set section.key=value.\n\n" +
           by_section(job, [](const Key& key) {
               return fmt::format("# {}\n{}{} = {}\n", wrapped(explained(key), "# ", kColumns),
                                  key.name == "data.path" ? "" : "#", key.key(), value_text(value_of(key)));
           });
}

}  // namespace cleave
