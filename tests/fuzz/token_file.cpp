// Any bytes as a token file of one file: our container, llm.c's, nanoGPT's.
#include "train/token_file.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace cleave;
    const fuzz::MemoryFile memory(fuzz::text_of(data, size));
    fuzz::answers([&] {
        const TokenFile file(memory.path());
        CLEAVE_CHECK(!file.tokens().empty() && file.tokens().size() <= size);
        file.check_ids(50257, "the test");
        for (const Token token : file.tokens().copy()) CLEAVE_CHECK(token >= 0 && token < 50257);
    });
    return 0;
}
