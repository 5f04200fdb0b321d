// Any bytes as the file of data.mask (train/label_mask.h): the first byte is the number of tokens, the rest the file.
#include "train/label_mask.h"

#include <algorithm>

#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace cleave;
    if (size == 0) return 0;
    const fuzz::MemoryFile memory(fuzz::text_of(data + 1, size - 1));
    fuzz::answers([&] {
        const LabelMask mask(memory.path(), data[0]);
        CLEAVE_CHECK(mask.bytes().size() == data[0]);
        CLEAVE_CHECK(
            std::all_of(mask.bytes().begin(), mask.bytes().end(), [](std::byte b) { return b <= std::byte{1}; }));
    });
    return 0;
}
