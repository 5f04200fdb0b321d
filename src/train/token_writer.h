// Writes token files; token_file.h reads them.
// Thread rule: functions on their arguments.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "train/tokenizer.h"

namespace cleave {

enum class TokenFormat : std::uint8_t { cleave, bin, megatron };

// cleave: our container, with the tokenizer. bin: u16 ids alone (nanoGPT); for a vocabulary above 65536, llm.c's header
// and u32 ids. megatron: NAME.bin and NAME.idx, one document; ids as Megatron chooses them, u16 for vocabularies below
// 65500, else i32. `path` ends in .bin. Each file is written whole or not at all. Throws UserError.
void write_token_file(const std::filesystem::path& path, TokenFormat format, std::span<const Token> tokens,
                      const Tokenizer& tokenizer, std::uint64_t text_hash);

}  // namespace cleave
