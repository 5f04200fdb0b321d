// The patterns of tokenizer.json, written for the Hugging Face library's engine (Oniguruma, Ruby syntax, Unicode 16),
// in the syntax of ours (PCRE2, Unicode 14). What both engines understand alike passes; where they differ (\s, newer
// letters) the pattern says it in full; everything else is refused by name, never approximated. Thread rule: a pure
// function.
#pragma once

#include <string>
#include <string_view>

namespace cleave {

// The pattern for PCRE2 with UTF and UCP. Accepted: literals, \r \n \t \f, \s \S \d, \p{..} and \P{..} of general
// categories, classes, groups (?: (?i: (?= (?! (?>, and ? * + {n} {n,} {n,m}, the first three also lazy or possessive.
// Throws UserError, beginning with `source`, naming what it met and where.
std::string pcre_pattern(std::string_view pattern, std::string_view source);

}  // namespace cleave
