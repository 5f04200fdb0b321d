#include "train/generate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/random.h"

namespace cleave {

namespace {

// The logits that follow the token at `position` of this rank's first row.
std::vector<double> logits_at(Engine& engine, Transformer& model, const std::vector<std::int32_t>& window,
                              std::int64_t position) {
    const std::int64_t context = model.config().context;
    // A row for every rank that the batch is cut over, so that each has one; all rows are alike.
    std::int64_t rows = 1;
    for (const auto& [axis, placement] : model.layouts().tokens)
        if (placement == S(0)) rows *= engine.mesh().size(axis);
    const Tensor tokens =
        engine.alloc("tokens", {rows, context}, model.layouts().tokens, DType::i32, MemoryKind::activations);
    engine.write(tokens, std::as_bytes(std::span(window)));
    Tape tape(engine, false);
    const Tensor logits = model.logits(tape, tokens);
    const auto vocabulary = static_cast<std::size_t>(logits.shape().back());
    std::vector<double> last(vocabulary);
    dispatch_float(logits.dtype(), [&]<class T>(T) {
        std::vector<T> all(static_cast<std::size_t>(logits.view().elements()));
        engine.read_bytes(logits, std::as_writable_bytes(std::span(all)));
        const T* row = all.data() + static_cast<std::size_t>(position) * vocabulary;
        for (std::size_t v = 0; v < vocabulary; ++v)
            last[v] = static_cast<double>(static_cast<accumulator_t<T>>(row[v]));
    });
    return last;
}

}  // namespace

std::vector<Token> prompt_tokens(const Tokenizer& tokenizer, std::string_view prompt, std::string_view what) {
    std::vector<Token> tokens = tokenizer.encode(prompt, what);
    const bool has_line_break = tokenizer.kind() == TokenizerKind::bytes || tokenizer.kind() == TokenizerKind::bpe;
    if (tokens.empty() && has_line_break) tokens = tokenizer.encode("\n", what);
    if (tokens.empty()) tokens.push_back(0);
    return tokens;
}

std::int32_t sample(std::span<const double> logits, double temperature, std::int64_t top_k, double uniform) {
    std::vector<std::int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    auto larger = [&](std::int32_t a, std::int32_t b) {
        const double x = logits[static_cast<std::size_t>(a)];
        const double y = logits[static_cast<std::size_t>(b)];
        return x != y ? x > y : a < b;
    };
    if (temperature <= 0) return *std::min_element(order.begin(), order.end(), larger);
    if (top_k > 0 && top_k < static_cast<std::int64_t>(order.size())) {
        std::nth_element(order.begin(), order.begin() + top_k, order.end(), larger);
        order.resize(static_cast<std::size_t>(top_k));
        std::sort(order.begin(), order.end());
    }
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int32_t v : order) largest = std::max(largest, logits[static_cast<std::size_t>(v)]);
    double total = 0;
    std::vector<double> weights;
    weights.reserve(order.size());
    for (std::int32_t v : order) {
        weights.push_back(std::exp((logits[static_cast<std::size_t>(v)] - largest) / temperature));
        total += weights.back();
    }
    double left = uniform * total;
    for (std::size_t i = 0; i < order.size(); ++i) {
        left -= weights[i];
        if (left < 0) return order[i];
    }
    return order.back();
}

std::vector<std::int32_t> generate(Engine& engine, Transformer& model, std::span<const std::int32_t> prompt,
                                   const Job::Sample& settings, std::int64_t vocabulary, std::uint64_t seed,
                                   const std::function<void(std::int32_t)>& on_token) {
    CLEAVE_CHECK(!prompt.empty() && vocabulary > 0 && vocabulary <= model.config().vocabulary);
    const auto context = static_cast<std::size_t>(model.config().context);
    const RandomStream random(seed, "sample");
    std::vector<std::int32_t> text(prompt.begin(), prompt.end());
    for (std::int64_t i = 0; i < settings.tokens; ++i) {
        const std::size_t seen = std::min(text.size(), context);
        std::vector<std::int32_t> window(text.end() - static_cast<std::ptrdiff_t>(seen), text.end());
        window.resize(context, 0);  // causal: what stands behind does not matter
        auto logits = logits_at(engine, model, window, static_cast<std::int64_t>(seen) - 1);
        logits.resize(static_cast<std::size_t>(vocabulary));
        if (!std::all_of(logits.begin(), logits.end(), [](double x) { return std::isfinite(x); }))
            throw RunError("the model's output is not finite at token {} of the text it writes", i + 1);
        text.push_back(
            sample(logits, settings.temperature, settings.top_k, random.uniform(static_cast<std::uint64_t>(i))));
        if (on_token) on_token(text.back());
    }
    return {text.begin() + static_cast<std::ptrdiff_t>(prompt.size()), text.end()};
}

}  // namespace cleave
