// Any bytes as a checkpoint or token file (train/checkpoint_file.h). The checksum of the header stops most changed
// files at once: an input that does not begin like such a file is taken as header and data, and gets a right prefix
// first.
#include <cstring>

#include "base/hash.h"
#include "fuzz/fuzz.h"
#include "train/checkpoint_file.h"

namespace {

constexpr std::size_t kPrefix = 24;

// The input is taken as a header text and data: a file whose prefix is right.
std::string with_prefix(std::string_view input) {
    const std::string_view header = input.substr(0, input.find('\0'));
    const std::uint64_t numbers[2] = {header.size(), cleave::hash64(header)};
    std::string bytes = "CLEAVE01" + std::string(kPrefix - 8, '\0');
    std::memcpy(bytes.data() + 8, numbers, sizeof(numbers));
    return bytes.append(input);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace cleave;
    const std::string_view input = fuzz::text_of(data, size);
    const bool whole_file = input.starts_with("CLEAVE");
    const fuzz::MemoryFile memory(whole_file ? std::string(input) : with_prefix(input));
    fuzz::answers([&] {
        const CheckpointFile file(memory.path());
        for (const CheckpointTensor& tensor : file.tensors()) {
            CLEAVE_CHECK(file.find(tensor.name) == &tensor);
            std::string copy(tensor.bytes.size(), '\0');
            file.read(tensor.name, tensor.dtype, tensor.shape, copy.data());
        }
    });
    return 0;
}
