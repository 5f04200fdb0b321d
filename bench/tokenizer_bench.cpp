// How fast text becomes tokens, on one core. The text and the tokenizer.json are the user's:
//   CLEAVE_BENCH_TEXT=any.txt CLEAVE_BENCH_TOKENIZER=tokenizer.json tokenizer_bench
// By default the King James Bible of scripts/demo_text.sh and the small tokenizers of tests/golden (from the tree's
// root).
#include <benchmark/benchmark.h>

#include <cstdlib>

#include "base/file.h"
#include "train/bpe_encoder.h"

namespace {

std::string setting(const char* name, const std::string& otherwise) {
    const char* value = std::getenv(name);
    return value == nullptr ? otherwise : value;
}

void encode(benchmark::State& state, const std::string& tokenizer) {
    const std::string text = cleave::read_text_file(setting("CLEAVE_BENCH_TEXT", "build/demo/text.txt"));
    const auto bpe =
        cleave::read_bpe(setting("CLEAVE_BENCH_TOKENIZER", "tests/golden/tokenizers/" + tokenizer + ".json"));
    std::vector<cleave::Token> tokens;
    for (auto _ : state) {
        cleave::BpeEncoder encoder(*bpe);  // an empty cache: what a first text costs
        tokens.clear();
        encoder.encode(text, tokens);
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(text.size()) * state.iterations());
    state.counters["bytes/token"] = static_cast<double>(text.size()) / static_cast<double>(tokens.size());
}

}  // namespace

BENCHMARK_CAPTURE(encode, gpt2, "gpt2")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, llama3, "llama3")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, qwen2, "qwen2")->Unit(benchmark::kMillisecond);
BENCHMARK_MAIN();
