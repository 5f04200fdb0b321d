#include "train/model_check.h"

#include <fmt/format.h>

#include <algorithm>

namespace cleave {
namespace {

class ModelChecker {
  public:
    explicit ModelChecker(const ModelConfig& model) : model_(model) {}

    std::vector<std::string> run() {
        const ModelConfig& m = model_;
        const bool divides = m.head_width != 0 || m.width % m.heads == 0;
        if (!divides)
            add("model.heads: found {}, which does not divide model.width = {}; nearest that do: {}, or a width "
                "of {}",
                m.heads, m.width, heads_text(nearest_divisors(m.heads, m.width)), nearest_multiples(m.width, m.heads));
        if (m.positions != 0 && m.positions < m.context)
            add("model.positions: found {}, fewer than model.context = {}; accepted: 0 (as many as model.context), or "
                "at least {}, or a model.context of at most {}",
                m.positions, m.context, m.context, m.positions);
        if (m.family == Family::llama)
            check_llama(m, divides);
        else
            check_gpt2(m);
        check_size(m);
        return std::move(problems_);
    }

  private:
    static std::string heads_text(const std::string& numbers) {
        return numbers + (numbers == "1" ? " head" : " heads");
    }
    template <class... Args>
    void add(fmt::format_string<Args...> format, Args&&... args) {
        problems_.push_back(fmt::format(format, std::forward<Args>(args)...));
    }

    void check_llama(const ModelConfig& m, bool divides) {
        if (m.head_width % 2 != 0)
            add("model.head_width: found {}; rotary positions need an even width: {} or {}", m.head_width,
                m.head_width - 1, m.head_width + 1);
        else if (divides && m.head_channels() % 2 != 0)
            add("model.heads: found {}, which gives heads of width {}; rotary positions need an even width: with {} "
                "heads, a model.width of {}",
                m.heads, m.head_channels(), m.heads, nearest_multiples(m.width, 2 * m.heads));
        if (m.heads % m.key_value_heads() != 0)
            add("model.kv_heads: found {}, which does not divide model.heads = {}; nearest that do: {}", m.kv_heads,
                m.heads, nearest_divisors(m.kv_heads, m.heads));
        const kernels::RotaryFrequencies& r = m.rotary;
        if (r.scaling == kernels::RotaryScaling::llama3 && r.low_frequency_factor >= r.high_frequency_factor)
            add("model.rope_low_frequency_factor: found {}; accepted: less than model.rope_high_frequency_factor = {}",
                r.low_frequency_factor, r.high_frequency_factor);
    }

    void check_gpt2(const ModelConfig& m) {
        if (m.key_value_heads() != m.heads)
            add("model.kv_heads: found {}; family gpt2 accepts 0 or model.heads = {} (family llama has grouped heads)",
                m.kv_heads, m.heads);
        if (m.head_width != 0 && m.head_width * m.heads != m.width)
            add("model.head_width: found {}; family gpt2 accepts 0 (model.width / model.heads; family llama may have "
                "another)",
                m.head_width);
        if (m.qkv_bias)
            add("model.qkv_bias: found true; family gpt2 accepts false (it has all biases; this adds them to family "
                "llama)");
        if (m.qk_norm) add("model.qk_norm: found true; family gpt2 accepts false (family llama may have it)");
        if (m.rotary.scaling != kernels::RotaryScaling::none)
            add("model.rope_scaling: found llama3; family gpt2 accepts none (it has no rotary positions)");
    }

    // Sizes are multiplied in 64 bits everywhere after this.
    void check_size(const ModelConfig& m) {
        constexpr double kMost = 1e13;
        const auto real = [](std::int64_t value) { return static_cast<double>(value); };
        const double width = real(m.width);
        const double attention = width * real(m.head_channels()) * real(2 * m.heads + 2 * m.key_value_heads());
        const double block = attention + 3 * width * real(m.hidden_mlp());
        const double all = real(m.layers) * block + width * (2 * real(m.vocabulary) + real(m.most_positions()));
        if (all > kMost)
            add("model.width: found {}, which with model.layers = {} and the other sizes gives about {:.0e} "
                "parameters; "
                "accepted: at most {:.0e}",
                m.width, m.layers, all, kMost);
    }

    const ModelConfig& model_;
    std::vector<std::string> problems_;
};

}  // namespace

std::string nearest_multiples(std::int64_t value, std::int64_t unit) {
    const std::int64_t below = value / unit * unit;
    if (below == 0) return fmt::format("{}", unit);
    return fmt::format("{} or {}", below, below + unit);
}

std::string nearest_divisors(std::int64_t value, std::int64_t whole) {
    std::int64_t below = std::min(value, whole);
    while (whole % below != 0) --below;
    std::int64_t above = std::min(value, whole);
    while (whole % above != 0) ++above;
    return below == above ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

std::vector<std::string> check_model(const ModelConfig& model) {
    return ModelChecker(model).run();
}

}  // namespace cleave
