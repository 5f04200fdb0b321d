// What readers and writers of token files share.
// Thread rule: constants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cleave {

// Our container: the tensor of ids, and in its metadata the XXH64 of the text.
inline constexpr std::string_view kTokensName = "tokens";
inline constexpr std::string_view kTextHashName = "text_xxh64";

// llm.c: a header of 256 i32, which begins with magic, version and the number of ids.
struct LlmcFormat {
    std::int32_t magic;
    std::int32_t version;
    std::size_t width;  // bytes of an id
};
inline constexpr LlmcFormat kLlmcGpt2 = {20240520, 1, 2};
inline constexpr LlmcFormat kLlmcLlama3 = {20240801, 7, 4};
inline constexpr std::size_t kLlmcHeaderBytes = 1024;

}  // namespace cleave
