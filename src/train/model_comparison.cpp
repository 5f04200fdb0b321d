#include "train/model_comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.h"

namespace cleave {

namespace {

constexpr std::int64_t kPromptTokens = 64;  // at most; compared by their logits

std::span<const std::byte> bytes_of(const Tensor& tensor) {
    return {static_cast<const std::byte*>(tensor.view().data), static_cast<std::size_t>(tensor.view().bytes())};
}

bool same_bytes(const Tensor& a, const Tensor& b) {
    const auto x = bytes_of(a), y = bytes_of(b);
    return std::equal(x.begin(), x.end(), y.begin(), y.end());
}

void round_to(DType stored, Transformer& model) {
    for (Parameter* parameter : model.parameters()) {
        const Tensor& master = parameter->master;
        if (master.dtype() == stored) continue;
        std::vector<std::byte> rounded(static_cast<std::size_t>(master.shape().elements() * size_of(stored)));
        convert_values(stored_as(master.dtype()), bytes_of(master), stored, rounded.data());
        convert_values(stored_as(stored), rounded, master.dtype(), master.view().data);
    }
    model.store().refresh_values();
}

}  // namespace

std::vector<double> logits_of_prompt(Engine& engine, Transformer& model) {
    const ModelConfig& config = model.config();
    const RandomStream random(1, "prompt of a conversion");
    std::vector<std::int32_t> prompt;
    for (std::int64_t i = 0; i < std::min(kPromptTokens, config.most_positions()); ++i)
        prompt.push_back(static_cast<std::int32_t>(
            random.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(config.vocabulary))));
    const Tensor tokens = engine.alloc("tokens", {1, static_cast<std::int64_t>(prompt.size())}, model.layouts().tokens,
                                       DType::i32, MemoryKind::activations);
    engine.write(tokens, std::as_bytes(std::span(prompt)));
    Tape tape(engine, false);
    const Tensor logits = model.logits(tape, tokens);
    std::vector<double> values(static_cast<std::size_t>(logits.shape().elements()));
    convert_values(stored_as(logits.dtype()), bytes_of(logits), DType::f64, values.data());
    return values;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
    double largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const double difference = std::abs(a[i] - b[i]);
        largest = difference <= largest    ? largest
                  : std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                           : difference;
    }
    return largest;
}

Comparison compare_with(const WeightsSource& written, Engine& engine, Transformer& model, DType stored) {
    Comparison result;
    round_to(stored, model);
    const std::vector<double> expected = logits_of_prompt(engine, model);
    Transformer again(engine, model.config(), model.layouts(), model.compute());
    written.load(again);
    const std::vector<Parameter*> before = model.parameters();
    const std::vector<Parameter*> after = again.parameters();
    result.tensors = static_cast<std::int64_t>(before.size());
    for (std::size_t i = 0; i < before.size(); ++i)
        if (!same_bytes(before[i]->master, after[i]->master)) result.different.push_back(before[i]->name);
    result.logit_difference = largest_difference(expected, logits_of_prompt(engine, again));
    return result;
}

}  // namespace cleave
