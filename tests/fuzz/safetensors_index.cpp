// Any text as the model.safetensors.index.json of a folder with two shards (train/safetensors.h): what is accepted
// names every tensor of the shards that it opens, and no other.
#include <cstring>

#include "fuzz/fuzz.h"
#include "support/scratch.h"
#include "train/safetensors.h"

namespace {

// a.safetensors holds "one" and "two", b.safetensors "three"; "neither" is a folder, "broken.safetensors" no such file.
const std::filesystem::path& folder() {
    static const cleave::ScratchFolder folder;
    static const bool filled = [] {
        using namespace cleave;
        const float values[6] = {1, 2, 3, 4, 5, 6};
        SafetensorsWriter first, second;
        first.add("one", {2}, DType::f32, values, DType::f32);
        first.add("two", {2, 3}, DType::f32, values, DType::bf16);
        second.add("three", {1}, DType::f32, values, DType::f32);
        first.write(folder / "a.safetensors");
        second.write(folder / "b.safetensors");
        write_all(folder / "broken.safetensors", "12345678{}");
        return std::filesystem::create_directory(folder / "neither");
    }();
    CLEAVE_CHECK(filled);
    return folder.path();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace cleave;
    const std::string text(fuzz::text_of(data, size));
    write_all(folder() / kIndexName, text);
    fuzz::answers([&] {
        const SafetensorsFolder weights(folder());
        const Json index = Json::parse(text, "input");
        const auto& named = *index.find("weight_map")->members();
        CLEAVE_CHECK(named.size() == weights.tensors().size(), "{} tensors of {}", weights.tensors().size(),
                     named.size());
        for (const auto& [name, file] : named) CLEAVE_CHECK(weights.find(name) != nullptr, "'{}'", name);
        for (const auto& [name, tensor] : weights.tensors()) {
            std::vector<float> values(static_cast<std::size_t>(tensor->shape.elements()));
            convert_values(tensor->type, tensor->bytes, DType::f32, values.data());
        }
    });
    return 0;
}
