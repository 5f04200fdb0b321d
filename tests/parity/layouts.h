// All layouts of up to 8 ranks that there are so far, and a small job with extents that they do not divide.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "support/variants.h"
#include "train/job.h"

namespace cleave::test {

struct LayoutFeatures {
    Variant variant = Variant::gpt2;
    bool tied = true;
    double dropout = 0;
    int accumulation = 1;
    Recompute recompute = Recompute::none;
    bool documents = false;
    bool even_vocabulary = false;
};

inline std::string text_of(const LayoutFeatures& f) {
    return fmt::format("{}{}{}, {} microbatches, recompute {}{}{}", name_of(f.variant), f.tied ? ", tied" : "",
                       f.dropout > 0 ? ", dropout" : "", f.accumulation, static_cast<int>(f.recompute),
                       f.documents ? ", documents" : "", f.even_vocabulary ? ", even vocabulary" : "");
}

inline constexpr std::int64_t kLayoutBatch = 72;  // of dp 1, 2, 3, 4, 6, 8 times 1 or 3 microbatches

inline Job layout_job(const LayoutFeatures& features) {
    Job job;
    ModelConfig& m = job.model;
    m.layers = 2;
    m.heads = 8;
    m.width = 16;
    m.mlp_width = 26;
    m.context = 9;
    make_variant(m, features.variant);
    m.vocabulary = features.even_vocabulary ? 32 : 29;
    m.tied_embeddings = features.tied;
    m.dropout = m.attention_dropout = features.dropout;
    m.initial_deviation = 0.3;
    job.data.separate_documents = features.documents;
    job.recompute = features.recompute;
    Job::Train& t = job.train;
    t.batch = kLayoutBatch;
    t.dtype = DType::f64;
    t.warmup_steps = 2;
    t.steps = 20;
    t.lr = 1e-2;
    t.clip = 0.5;
    t.bucket_bytes = 1 << 12;
    return job;
}

struct ParallelLayout {
    int dp = 1;
    int tp = 1;
    bool sequence = false;
    SequenceInputs inputs = SequenceInputs::gathered;
    int zero = 0;
    int zero_group = 0;
    int chunks = 1;
    int ranks() const { return dp * tp; }
};

inline std::string text_of(const ParallelLayout& l) {
    return fmt::format("dp {} tp {}{}{} zero {}{}{}", l.dp, l.tp, l.sequence ? " sequence" : "",
                       l.sequence && l.inputs == SequenceInputs::kept ? " kept" : "", l.zero,
                       l.zero_group > 0 ? fmt::format(" in groups of {}", l.zero_group) : "",
                       l.chunks > 1 ? fmt::format(" in {} chunks", l.chunks) : "");
}

inline Job with_layout(Job job, const ParallelLayout& layout, int accumulation) {
    job.mesh.dp = layout.dp;
    job.mesh.tp = layout.tp;
    job.sequence_parallel = layout.sequence;
    job.sequence_parallel_inputs = layout.inputs;
    job.tensor_parallel_chunks = layout.chunks;
    job.zero.stage = layout.zero;
    job.zero.group = layout.zero_group;
    job.train.microbatch = job.train.batch / layout.dp / accumulation;
    return job;
}

// Of 6 to 72 sequences in a microbatch: more than two, and not the same number in each.
inline constexpr int kChunks = 5;

inline std::vector<ParallelLayout> all_layouts() {
    std::vector<ParallelLayout> all;
    for (int tp : {1, 2, 4, 8})
        for (int dp : {1, 2, 3, 4, 6, 8}) {
            if (tp * dp > 8) continue;
            for (int form = 0; form < (tp == 1 ? 1 : 3); ++form)
                for (int zero = 0; zero <= (dp == 1 ? 0 : 3); ++zero) {
                    const auto inputs = form == 2 ? SequenceInputs::kept : SequenceInputs::gathered;
                    all.push_back({dp, tp, form > 0, inputs, zero, 0});
                    if (zero > 0 && dp % 2 == 0 && dp > 2 && form == 0) all.push_back({dp, tp, false, inputs, zero, 2});
                    if (tp > 1) all.push_back({dp, tp, form > 0, inputs, zero, 0, kChunks});
                }
        }
    return all;
}

inline std::vector<LayoutFeatures> all_features() {
    std::vector<LayoutFeatures> all;
    for (Variant variant : {Variant::gpt2, Variant::llama, Variant::qwen3})
        for (bool tied : {true, false})
            for (double dropout : {0.0, 0.25})
                for (int accumulation : {1, 3})
                    for (Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full})
                        for (bool more : {false, true})
                            all.push_back({variant, tied, dropout, accumulation, recompute, more, more});
    return all;
}

}  // namespace cleave::test
