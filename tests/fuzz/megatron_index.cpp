// Two bytes for the size of the .bin in units of two bytes, then any bytes as the .idx of it.
#include "train/megatron_index.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace cleave;
    if (size < 2) return 0;
    const std::uint64_t data_bytes = 2 * (std::uint64_t{data[0]} + 256 * std::uint64_t{data[1]});
    const auto bytes = std::as_bytes(std::span(data + 2, size - 2));
    fuzz::answers([&] {
        const MegatronIndex index = parse_megatron_index(bytes, data_bytes, "input");
        std::int64_t previous = -1;
        for (const std::int64_t start : index.document_starts) {
            CLEAVE_CHECK(start > previous && static_cast<std::uint64_t>(start) * index.width < data_bytes);
            previous = start;
        }
    });
    return 0;
}
