#include "train/bpe_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "base/error.h"
#include "train/bpe_regex.h"

namespace cleave {
namespace {

constexpr std::size_t kStackStart = std::size_t{64} << 10;
constexpr std::size_t kStackMost = std::size_t{8} << 20;
constexpr std::uint32_t kMatchLimit = 10'000'000;  // steps of one match

std::string message_of(int error) {
    std::array<PCRE2_UCHAR, 256> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    return reinterpret_cast<const char*>(text.data());
}

PCRE2_SPTR units(std::string_view text) {
    return reinterpret_cast<PCRE2_SPTR>(text.data());
}

}  // namespace

Pattern::Pattern(std::string_view pattern, std::string_view source) : text_(pattern) {
    const std::string translated = pcre_pattern(pattern, source);
    int error = 0;
    PCRE2_SIZE at = 0;
    const std::shared_ptr<pcre2_code> code(
        pcre2_compile(units(translated), translated.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error,
                      &at, nullptr),
        pcre2_code_free);
    if (!code) throw UserError("{}: cannot use the pattern '{}': {}", source, pattern, message_of(error));
    std::uint32_t empty = 0;
    pcre2_pattern_info(code.get(), PCRE2_INFO_MATCHEMPTY, &empty);
    if (empty != 0)
        throw UserError("{}: cannot use the pattern '{}': it matches the empty text; accepted: one that never does",
                        source, pattern);
    if (const int problem = pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE); problem != 0)
        throw UserError("{}: cannot use the pattern '{}': {}", source, pattern, message_of(problem));
    code_ = code;
}

Matcher::Matcher(const Pattern& pattern) : pattern_(pattern) {
    const std::shared_ptr<pcre2_jit_stack> stack(pcre2_jit_stack_create(kStackStart, kStackMost, nullptr),
                                                 pcre2_jit_stack_free);
    pcre2_match_context* context = pcre2_match_context_create(nullptr);
    CLEAVE_CHECK(stack && context != nullptr, "PCRE2 has no memory");
    context_ = std::shared_ptr<void>(
        context, [stack](void* old) { pcre2_match_context_free(static_cast<pcre2_match_context*>(old)); });
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_jit_stack_assign(context, nullptr, stack.get());
    data_ = std::shared_ptr<void>(pcre2_match_data_create(1, nullptr),
                                  [](void* old) { pcre2_match_data_free(static_cast<pcre2_match_data*>(old)); });
    CLEAVE_CHECK(data_ != nullptr, "PCRE2 has no memory");
}

Matcher::Match Matcher::find(std::string_view text, std::size_t from) const {
    auto* data = static_cast<pcre2_match_data*>(data_.get());
    const int result = pcre2_jit_match(static_cast<const pcre2_code*>(pattern_.code_.get()), units(text), text.size(),
                                       from, 0, data, static_cast<pcre2_match_context*>(context_.get()));
    if (result == PCRE2_ERROR_NOMATCH) return {text.size(), text.size()};
    if (result < 0)
        throw UserError("the tokenizer's pattern '{}' cannot be matched at byte {} of a text of {}: {}",
                        pattern_.text(), from, text.size(), message_of(result));
    const PCRE2_SIZE* found = pcre2_get_ovector_pointer(data);
    CLEAVE_CHECK(found[0] < found[1] && found[1] <= text.size());
    return {found[0], found[1]};
}

}  // namespace cleave
