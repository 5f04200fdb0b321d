#include "train/label_mask.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "base/words.h"

namespace cleave {

LabelMask::LabelMask(const std::filesystem::path& path, std::size_t tokens)
    : file_(path), hash_(hash64(file_.bytes())) {
    if (file_.size() != tokens)
        throw UserError("data.mask: '{}' has {}, data.path {}; accepted: one byte a token", path.string(),
                        counted(file_.size(), "byte"), counted(tokens, "token"));
    const auto wrong = std::find_if(bytes().begin(), bytes().end(), [](std::byte byte) { return byte > std::byte{1}; });
    if (wrong != bytes().end())
        throw UserError("data.mask: byte {} of '{}' is {}; accepted: 1, a label, and 0, none", wrong - bytes().begin(),
                        path.string(), static_cast<int>(*wrong));
}

}  // namespace cleave
