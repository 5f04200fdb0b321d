// Any text as a tokenizer.json. What is accepted encodes a text with everything in it, and gives its bytes back unless
// the file asks for a normal form or a prefix.
#include "fuzz/fuzz.h"
#include "train/bpe_encoder.h"

namespace {

constexpr std::string_view kText =
    "It's 12345 a\xCC\x81 \xE4\xB8\xAD \xFF\xC3  \r\n\n\t<|endoftext|> ab\xF0\x9F\x98\x80 x";

bool keeps_text(const cleave::Bpe& bpe) {
    for (const cleave::WordStage& stage : bpe.stages)
        if (stage.add_prefix_space) return false;
    return !bpe.normal_form_c;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace cleave;
    fuzz::answers([&] {
        const auto bpe = parse_bpe(std::string(fuzz::text_of(data, size)), "input");
        std::vector<Token> tokens;
        BpeEncoder(*bpe).encode(kText, tokens);
        std::string text;
        for (const Token token : tokens) text += bpe->bytes.at(static_cast<std::size_t>(token));
        CLEAVE_CHECK(!keeps_text(*bpe) || text == kText);
    });
    return 0;
}
