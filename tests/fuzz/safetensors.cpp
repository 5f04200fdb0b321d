// Any bytes as a safetensors file (train/safetensors.h). An input that begins like a JSON object is taken as header, up
// to a zero byte, and data, and gets the right length in front; any other is a file as it is. What is accepted is read
// to the last byte.
#include "train/safetensors.h"

#include <cstring>

#include "fuzz/fuzz.h"

namespace {

std::string with_length(std::string_view input) {
    const std::size_t end = std::min(input.find('\0'), input.size());
    const std::uint64_t length = end;
    std::string bytes(sizeof(length), '\0');
    std::memcpy(bytes.data(), &length, sizeof(length));
    bytes.append(input.substr(0, end));
    return bytes.append(input.substr(std::min(end + 1, input.size())));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace cleave;
    const std::string_view input = fuzz::text_of(data, size);
    const fuzz::MemoryFile memory(input.starts_with("{") ? with_length(input) : std::string(input));
    fuzz::answers([&] {
        const SafetensorsFile file(memory.path());
        for (const SafetensorsTensor& tensor : file.tensors()) {
            CLEAVE_CHECK(tensor.shape.elements() * tensor.type.bits / 8 ==
                         static_cast<std::int64_t>(tensor.bytes.size()));
            if (!is_readable(tensor.type)) continue;
            std::vector<float> values(static_cast<std::size_t>(tensor.shape.elements()));
            convert_values(tensor.type, tensor.bytes, DType::f32, values.data());
        }
    });
    return 0;
}
