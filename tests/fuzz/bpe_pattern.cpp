// A pattern and, behind a NUL, a text: translated, compiled and matched over the text. The pieces tile the text.
#include "base/utf8.h"
#include "fuzz/fuzz.h"
#include "train/bpe_words.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace cleave;
    const std::string_view input = fuzz::text_of(data, size);
    const auto end = std::min(input.find('\0'), input.size());
    std::string text;  // only what is UTF-8, as the encoder hands it on
    for (std::size_t at = end; at < input.size();) {
        const Utf8Step step = utf8_step(input, at);
        if (step.valid) text += input.substr(at, step.length);
        at += step.length;
    }
    fuzz::answers([&] {
        WordSplitter splitter({{Pattern(input.substr(0, end), "input"), false}});
        std::string joined;
        if (!text.empty())
            splitter.for_each_word(text, [&](std::string_view word) {
                CLEAVE_CHECK(!word.empty());
                joined += word;
            });
        CLEAVE_CHECK(joined == text);
    });
    return 0;
}
