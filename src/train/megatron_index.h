// The index of Megatron-LM's token files: OUT.idx beside OUT.bin, which holds the ids of all sequences, one after the
// other.
//
//   9 bytes "MMIDIDX\0\0", u64 version = 1, u8 dtype code, u64 sequences, u64 document indices,
//   i32 length of each sequence in tokens, i64 where each begins in the .bin in bytes, i64 document indices: the
//   sequence that each document begins with, and behind the last their number.
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cleave {

struct MegatronIndex {
    std::size_t width = 2;                      // bytes of an id: 1, 2 or 4
    std::vector<std::int64_t> document_starts;  // in tokens, rising
};

bool is_megatron_index(std::span<const std::byte> bytes);  // by what it begins with
// `data_bytes`: the size of the .bin. Throws UserError, beginning with `source`: damaged, hostile, of a dtype that
// holds no ids, or of sequences that do not follow each other in the .bin.
MegatronIndex parse_megatron_index(std::span<const std::byte> bytes, std::uint64_t data_bytes, std::string_view source);
// An index of one sequence a document; they begin at `document_starts` and end at `tokens`, in ids of `width` bytes.
std::string megatron_index(std::span<const std::int64_t> document_starts, std::int64_t tokens, std::size_t width);

}  // namespace cleave
