// A compiled pattern that cuts a text into pieces. The only file with PCRE2, compiled to machine code (JIT).
// Thread rule: a Pattern is immutable and may be shared; each thread has a Matcher of its own.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace cleave {

class Pattern {
  public:
    // A pattern of tokenizer.json (bpe_regex.h says what is accepted). Throws UserError, beginning with `source`.
    Pattern(std::string_view pattern, std::string_view source);
    const std::string& text() const { return text_; }

  private:
    friend class Matcher;
    std::string text_;
    std::shared_ptr<const void> code_;  // pcre2_code
};

class Matcher {
  public:
    explicit Matcher(const Pattern& pattern);

    struct Match {
        std::size_t begin;
        std::size_t end;  // above begin
    };
    // The first match in `text`, which is UTF-8, at or behind `from`; {size, size} where there is none. Throws
    // UserError where the pattern needs more time or memory on this text than a tokenizer's should.
    Match find(std::string_view text, std::size_t from) const;

  private:
    Pattern pattern_;
    std::shared_ptr<void> context_;  // pcre2_match_context and its stack
    std::shared_ptr<void> data_;     // pcre2_match_data
};

}  // namespace cleave
