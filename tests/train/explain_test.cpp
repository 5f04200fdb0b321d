// The explanation of a step: what a Megatron layer sends, and that the parts are the whole step of the dry run.
#include "train/explain.h"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>

#include "train/dry_run.h"

namespace cleave::explained {
namespace {

constexpr std::int64_t kSequences = 2;
constexpr std::int64_t kContext = 32;
constexpr std::int64_t kWidth = 64;

Job job_on(int tp, bool sequence, SequenceInputs inputs = SequenceInputs::gathered) {
    Job job;
    job.model.layers = 3;
    job.model.heads = 8;
    job.model.width = kWidth;
    job.model.context = kContext;
    job.model.vocabulary = 64;
    job.mesh.tp = tp;
    job.sequence_parallel = sequence;
    job.sequence_parallel_inputs = inputs;
    job.train.batch = kSequences;
    return job;
}

Explanation explained(const Job& job, int ranks) {
    return explain(job, ranks, 0, comm::TransportKind::inproc, 1);
}

const ExplainedPart& part(const Explanation& e, const std::string& name) {
    for (const ExplainedPart& p : e.parts)
        if (p.name == name) return p;
    throw std::logic_error(name);
}

int count(const ExplainedPass& pass, const std::string& collective) {
    int n = 0;
    for (const Event& event : pass.events) n += event.type == EventType::issue && event.name == collective;
    return n;
}

// Of the layer itself: a bucket of gradients, of whatever layers, is issued where its last gradient is ready.
std::int64_t sent(const ExplainedPass& pass) {
    std::int64_t bytes = 0;
    for (const Event& event : pass.events)
        if (event.type == EventType::issue && !event.detail.starts_with("gradient")) bytes += event.bytes;
    return bytes;
}

// Two sums of the stream a direction; on the wire 8 b s h (t - 1) / t numbers a rank for both directions.
TEST(Explain, AMegatronLayerSendsTwoStreamsADirection) {
    for (const int t : {2, 4, 8}) {
        const Explanation e = explained(job_on(t, false), t);
        const ExplainedPart& block = part(e, "block 0");
        EXPECT_EQ(block.last, "block 2");
        EXPECT_EQ(count(block.forward, "all_reduce"), 2);
        EXPECT_EQ(count(block.backward, "all_reduce"), 2);
        const std::int64_t stream = kSequences * kContext * kWidth * 4;  // bytes, f32
        EXPECT_EQ(sent(block.forward), 4 * stream * (t - 1) / t);
        EXPECT_EQ(sent(block.forward) + sent(block.backward), 8 * stream * (t - 1) / t);
    }
}

// The same with inputs kept; gathered again, a quarter more.
TEST(Explain, SequenceParallelismSendsTheSame) {
    const int t = 4;
    const std::int64_t stream = kSequences * kContext * kWidth * 4;
    const auto both = [&](SequenceInputs inputs) {
        const Explanation e = explained(job_on(t, true, inputs), t);
        const ExplainedPart& block = part(e, "block 0");
        EXPECT_EQ(count(block.forward, "all_gather"), 2);
        EXPECT_EQ(count(block.forward, "reduce_scatter"), 2);
        return sent(block.forward) + sent(block.backward);
    };
    EXPECT_EQ(both(SequenceInputs::kept), 8 * stream * (t - 1) / t);
    EXPECT_EQ(both(SequenceInputs::gathered), 10 * stream * (t - 1) / t);
}

TEST(Explain, ThePartsAreTheStepOfTheDryRun) {
    for (const bool sequence : {false, true}) {
        Job job = job_on(2, sequence);
        job.mesh.dp = 2;
        job.train.batch = 4;
        job.zero.stage = 3;
        const Explanation e = explained(job, 4);
        std::map<std::string, std::int64_t> bytes = e.rest.bytes_sent;
        for (const ExplainedPart& p : e.parts) {
            const int first = p.name.starts_with("block") ? std::stoi(p.name.substr(6)) : 0;
            const int last = p.name.starts_with("block") ? std::stoi(p.last.substr(6)) : 0;
            for (const ExplainedPass* pass : {&p.forward, &p.backward})
                for (const auto& [collective, own] : pass->bytes_sent) bytes[collective] += own * (last - first + 1);
        }
        EXPECT_EQ(bytes, e.bytes_sent);
        EXPECT_EQ(e.bytes_sent, dry_run(job, 4, comm::TransportKind::inproc, 1)[0].bytes_sent);
    }
}

TEST(Explain, ParametersSayHowTheyAreCut) {
    const Explanation e = explained(job_on(2, true), 2);
    std::map<std::string, const ExplainedParameter*> by_name;
    for (const ExplainedParameter& p : e.parameters) by_name[p.name] = &p;
    EXPECT_EQ(by_name.at("transformer.h.0.attn.c_attn.weight")->placement, "dp:R tp:S(2)");
    EXPECT_EQ(by_name.at("transformer.h.0.ln_1.weight")->gradient_placement, "dp:P tp:P");
    EXPECT_EQ(by_name.at("transformer.wte.weight")->elements, 32 * kWidth);
}

}  // namespace
}  // namespace cleave::explained
