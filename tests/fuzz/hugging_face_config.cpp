// Any text as the config.json of a Hugging Face folder: what is accepted describes a model whose own config.json
// describes the same model again.
#include "train/hugging_face_config.h"

#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace cleave;
    fuzz::answers([&] {
        const Json json = Json::parse(fuzz::text_of(data, size), "input");
        const Json own = hugging_face_config(read_hugging_face_config(json, "input").model, DType::f32);
        CLEAVE_CHECK(hugging_face_config(read_hugging_face_config(own, "its own").model, DType::f32) == own);
    });
    return 0;
}
