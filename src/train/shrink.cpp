#include "train/shrink.h"

#include <algorithm>

#include "base/words.h"
#include "parallel/tensor_parallel.h"
#include "train/job_keys.h"
#include "train/job_layout.h"

namespace cleave {

namespace {

constexpr std::int64_t kLayers = 2;
constexpr std::int64_t kHeadWidth = 8;
constexpr std::int64_t kContext = 24;
constexpr std::int64_t kWords = 12;        // a rank
constexpr std::int64_t kHiddenUnits = 12;  // a rank
constexpr std::int64_t kMicrobatches = 2;  // where there are several

// At most `most`, with the same remainder over `parts` where it can be: what divides unevenly goes on to.
std::int64_t small(std::int64_t value, std::int64_t most, std::int64_t parts) {
    if (value <= most) return value;
    const std::int64_t lowered = (value - most) / parts * parts;
    const std::int64_t result = value - lowered;
    return result > most ? result - parts : result;
}

// A few heads a rank, cut over `tp` ranks in the same way.
void shrink_heads(ModelConfig& m, int tp) {
    const HeadCut cut = cut_heads(tp, m.key_value_heads(), m.query_group());
    const std::int64_t group = cut.groups * std::min<std::int64_t>(2, m.query_group() / cut.groups);
    std::int64_t key_heads = cut.keys;
    for (const std::int64_t times : {3, 2})
        if (times * cut.keys <= m.key_value_heads() && cut_heads(tp, times * cut.keys, group).keys == cut.keys)
            key_heads = times * cut.keys;
    const bool own_head_width = m.head_width != 0 && m.head_width * m.heads != m.width;
    m.heads = key_heads * group;
    if (m.kv_heads != 0) m.kv_heads = key_heads;
    m.width = m.heads * kHeadWidth;
    m.head_width = own_head_width ? kHeadWidth - 2 : 0;
}

// `parts`: virtual stages, each of which has a layer as before.
void shrink_model(ModelConfig& m, int tp, int parts) {
    const std::int64_t hidden = m.hidden_mlp();
    shrink_heads(m, tp);
    m.mlp_width = small(hidden, kHiddenUnits * tp, tp);
    m.layers = std::min<std::int64_t>(m.layers, std::max<std::int64_t>(kLayers, parts));
    m.vocabulary = small(m.vocabulary, kWords * tp + tp - 1, tp);
    const std::int64_t context = small(m.context, std::max<std::int64_t>(kContext, 2 * std::int64_t{tp}), tp);
    if (m.positions != 0) m.positions = context + std::min<std::int64_t>(m.positions - m.context, 3);
    m.context = context;
    if (m.window != 0) m.window = std::min(m.window, std::max<std::int64_t>(1, context / 2));
    if (m.rotary.scaling == kernels::RotaryScaling::llama3) {
        m.rotary.base = 100;  // waves of which one stays and one is stretched, as in the whole model
        m.rotary.original_context = 40;
    }
}

// As many as every schedule takes; a file says how many.
std::int64_t few_microbatches(const Job& job, std::int64_t passes) {
    if (job.mesh.pp == 1) return kMicrobatches;
    return job.pipeline.schedule_file.empty() ? 2 * std::int64_t{job.mesh.pp} : passes;
}

}  // namespace

Job shrunk(const Job& job, int ranks) {
    Job small_job = job;
    shrink_model(small_job.model, job.mesh.tp, pipeline_form(job).virtual_stages());
    small_job.pipeline.layers.clear();
    const int dp = data_parallel_ranks(job, ranks);
    const std::int64_t passes = accumulation(job, dp, job.train.batch);
    Job::Train& t = small_job.train;
    t.microbatch = std::min<std::int64_t>(microbatch_size(job, dp), 2);
    t.batch = dp * t.microbatch * std::min(passes, few_microbatches(job, passes));
    t.ramp_batch = t.ramp_steps = 0;
    return small_job;
}

std::string shrinkage(const Job& before, const Job& after) {
    Job old_job = before;
    Job new_job = after;
    const auto old_keys = keys_of(old_job);
    const auto new_keys = keys_of(new_job);
    std::string text;
    for (std::size_t i = 0; i < old_keys.size(); ++i) {
        const std::string was = value_text(value_of(old_keys[i])), is = value_text(value_of(new_keys[i]));
        if (was != is) text += fmt::format("{}{} {} -> {}", text.empty() ? "" : ", ", old_keys[i].name, was, is);
    }
    return text;
}

}  // namespace cleave
