#include "train/generate.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/random.h"
#include "train/next_logits.h"
#include "train/token_sampler.h"

namespace cleave {

namespace {

// Adds the time from one call to the next.
class Stopwatch {
  public:
    double lap() {
        const auto before = std::exchange(last_, std::chrono::steady_clock::now());
        return std::chrono::duration<double>(last_ - before).count();
    }

  private:
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace

std::vector<Token> prompt_tokens(const Tokenizer& tokenizer, std::string_view prompt, std::string_view what) {
    std::vector<Token> tokens = tokenizer.encode(prompt, what);
    const bool has_line_break = tokenizer.kind() == TokenizerKind::bytes || tokenizer.kind() == TokenizerKind::bpe;
    if (tokens.empty() && has_line_break) tokens = tokenizer.encode("\n", what);
    if (tokens.empty()) tokens.push_back(0);
    return tokens;
}

Generated generate(Engine& engine, Transformer& model, std::span<const Token> prompt,
                   const GenerationSettings& settings, const std::function<bool(Token)>& on_token) {
    const std::int64_t vocabulary = settings.vocabulary;
    CLEAVE_CHECK(!prompt.empty() && vocabulary > 0 && vocabulary <= model.config().vocabulary);
    const auto begin = static_cast<std::ptrdiff_t>(prompt.size());
    const RandomStream random(settings.seed, "sample");
    std::vector<Token> text(prompt.begin(), prompt.end());
    NextLogits next(engine, model, begin + settings.sample.tokens, settings.cache);
    TokenSampler sampler(settings.sample);
    const auto ends = [&](Token token) {
        const auto& all = settings.end_tokens;
        return std::find(all.begin(), all.end(), token) != all.end();
    };
    Generated result;
    Stopwatch watch;
    for (std::int64_t i = 0; i < settings.sample.tokens; ++i) {
        const Token token = sampler.draw(next.after(text, vocabulary), random.uniform(static_cast<std::uint64_t>(i)));
        (i == 0 ? result.prefill_seconds : result.decode_seconds) += watch.lap();
        result.decode_passes = i;
        if (ends(token)) {
            result.ending = Ending::end_token;
            break;
        }
        text.push_back(token);
        if (on_token && !on_token(token)) {
            result.ending = Ending::caller;
            break;
        }
        watch.lap();  // what the caller did
    }
    result.tokens.assign(text.begin() + begin, text.end());
    return result;
}

}  // namespace cleave
