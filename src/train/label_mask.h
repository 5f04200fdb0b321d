// Which tokens are labels: a file of one byte a token, 1 = a label, 0 = none, mapped. (A token file cannot say it
// itself: the -100 of other trainers' labels is no id.) Thread rule: immutable after construction.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "base/file.h"

namespace cleave {

class LabelMask {
  public:
    // Of `tokens` tokens. Throws UserError: missing, another length, a byte that is neither 0 nor 1.
    LabelMask(const std::filesystem::path& path, std::size_t tokens);

    std::span<const std::byte> bytes() const { return file_.bytes(); }
    std::uint64_t hash() const { return hash_; }  // XXH64

  private:
    MappedFile file_;
    std::uint64_t hash_;
};

}  // namespace cleave
