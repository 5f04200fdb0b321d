// Any text through the JSON reader: what it accepts it writes again, and that reads back as the same value.
#include "base/json.h"

#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace cleave;
    fuzz::answers([&] {
        const Json json = Json::parse(fuzz::text_of(data, size), "input");
        const std::string text = json.dump();
        CLEAVE_CHECK(Json::parse(text, "its own text").dump() == text);
    });
    return 0;
}
