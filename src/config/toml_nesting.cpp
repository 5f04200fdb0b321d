#include "config/toml_nesting.h"

#include <algorithm>

namespace cleave {
namespace {

class Scanner {
  public:
    explicit Scanner(std::string_view text) : text_(text) {}

    std::optional<std::size_t> run() {
        while (at_ < text_.size()) {
            const char c = text_[at_];
            if (c == '#')
                at_ = std::min(text_.find('\n', at_), text_.size());
            else if (c == '"' || c == '\'')
                skip_string(c);
            else
                step(c);
            if (open_ > kMostTomlNesting || dots_ > kMostTomlNesting) return line_;
        }
        return std::nullopt;
    }

  private:
    void step(char c) {
        ++at_;
        if (c == '\n') ++line_;
        if (c == '[' || c == '{') ++open_;
        if ((c == ']' || c == '}') && open_ > 0) --open_;
        if (c == '.') ++dots_;
        // Whatever stands between two keys: dots of numbers are no parts of one key.
        if (std::string_view("\n[]{},=").find(c) != std::string_view::npos) dots_ = 0;
    }

    void skip_string(char quote) {
        const std::string_view three = quote == '"' ? "\"\"\"" : "'''";
        const bool lines = text_.substr(at_, 3) == three;
        at_ += lines ? 3 : 1;
        while (at_ < text_.size()) {
            const char c = text_[at_];
            if (lines ? text_.substr(at_, 3) == three : c == quote) break;
            if (c == '\n' && !lines) return;  // not valid: the library says so
            if (c == '\n') ++line_;
            at_ += c == '\\' && quote == '"' ? 2 : 1;
        }
        at_ += lines ? 3 : 1;
        // Up to two quotes may stand before the three that end it.
        for (int more = 0; lines && more < 2 && at_ < text_.size() && text_[at_] == quote; ++more) ++at_;
    }

    std::string_view text_;
    std::size_t at_ = 0;
    std::size_t line_ = 1;
    std::size_t open_ = 0;
    std::size_t dots_ = 0;  // of the key being read
};

}  // namespace

std::optional<std::size_t> too_deep_line(std::string_view text) {
    return Scanner(text).run();
}

}  // namespace cleave
