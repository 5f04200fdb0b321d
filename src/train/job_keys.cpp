#include "train/job_keys.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "base/error.h"

namespace cleave {
namespace {

using std::string_view;

// The order of each enum's values.
constexpr std::array<string_view, 2> kAttentionKinds = {"fused", "materialised"};
constexpr std::array<string_view, 2> kFamilies = {"gpt2", "llama"};
constexpr std::array<string_view, 2> kRotaryScalings = {"none", "llama3"};
constexpr std::array<string_view, 3> kTokenizers = {"char", "bytes", "bpe"};
constexpr std::array<string_view, 3> kRecompute = {"none", "selective", "full"};
constexpr std::array<string_view, 2> kSequenceInputs = {"gathered", "kept"};
constexpr std::array<string_view, 3> kDTypes = {"f64", "f32", "bf16"};
constexpr std::array<string_view, 2> kOptimizers = {"adamw", "sgd"};
constexpr std::array<string_view, 2> kZeroReduce = {"microbatch", "step"};
constexpr std::array<string_view, 4> kLrSchedules = {"cosine", "linear", "wsd", "constant"};

template <class Enum>
WordField words(Enum& value, std::span<const string_view> all) {
    static_assert(sizeof(Enum) == sizeof(std::uint8_t));
    return {reinterpret_cast<std::uint8_t*>(&value), all};  // unsigned char may alias anything
}

constexpr NumberRange kAny = {-kNoLimit, kNoLimit};
// Beyond these bounds f32 overflows or a count is no longer exact; each message names its own.
constexpr double kMostNumber = 1e16;
constexpr double kMostSteps = 1e12;
constexpr NumberRange kFromZero = {0, kMostNumber};
constexpr NumberRange kAboveZero = {0, kMostNumber, false};
constexpr NumberRange kAboveZeroTo1 = {0, 1, false};
constexpr NumberRange kStepsFromZero = {0, kMostSteps};
constexpr NumberRange kSeconds = {0.001, 1e6};  // to 11 days; waits are counted in 64-bit nanoseconds
constexpr NumberRange kInside01 = {0, 1, false, false};
constexpr NumberRange kFrom0Below1 = {0, 1, true, false};
constexpr NumberRange kRanks = {1, 1 << 20};

constexpr NumberRange from_one(double most) {
    return {1, most};
}
constexpr NumberRange from_zero(double most) {
    return {0, most};
}

// Above all sections, as TOML wants it.
void add_top(std::vector<Key>& keys, Job& job) {
    keys.push_back({"recompute",
                    "what backward computes again instead of keeping it: none, selective (outputs of norms and "
                    "activations) or full (whole blocks: only their inputs are kept). Results are the same",
                    words(job.recompute, kRecompute), kAny, OnResume::accept});
    keys.push_back({"sequence_parallel",
                    "with mesh.tp: norms, dropout and residual sums are cut by tokens over the tp ranks, which takes "
                    "their memory and work over tp and sends the same bytes",
                    &job.sequence_parallel, kAny, OnResume::bits});
    keys.push_back({"sequence_parallel_inputs",
                    "what backward has of the inputs of matrices: gathered again (what is kept is all over tp) or kept "
                    "whole (one all_gather a norm less). Results are the same",
                    words(job.sequence_parallel_inputs, kSequenceInputs), kAny, OnResume::accept});
    keys.push_back({"tensor_parallel_chunks",
                    "with mesh.tp: the sequences of a microbatch travel between the tp ranks in so many chunks, each "
                    "while the matrix products of another one run; 1 = all at once. At most one a sequence. Results "
                    "are the same",
                    &job.tensor_parallel_chunks, from_one(1 << 16), OnResume::accept});
}

void add_model(std::vector<Key>& keys, Job& job) {
    using enum OnResume;
    ModelConfig& m = job.model;
    keys.insert(
        keys.end(),
        {
            {"model.family",
             "shape of a block: gpt2 (learned positions, LayerNorm, GELU, biases) or llama (rotary positions, RMSNorm, "
             "SwiGLU, no biases)",
             words(m.family, kFamilies), kAny, refuse},
            {"model.weights",
             "initial weights, every key of [model] that is not set, and the tokenizer.json: a Hugging Face folder, a "
             "run "
             "folder or a checkpoint; empty = random weights. In a run file it is relative to that file's folder",
             &job.weights, kAny, accept},
            {"model.layers", "blocks, one above the other", &m.layers, from_one(10000), refuse},
            {"model.heads", "attention heads; they divide model.width", &m.heads, from_one(65536), refuse},
            {"model.kv_heads", "llama: heads of keys and values, shared by groups of heads; 0 = as many as model.heads",
             &m.kv_heads, from_zero(65536), refuse},
            {"model.width", "numbers that represent a token between blocks", &m.width, from_one(1 << 20), refuse},
            {"model.head_width", "llama: channels of a head; 0 = model.width / model.heads", &m.head_width,
             from_zero(1 << 16), refuse},
            {"model.mlp_width",
             "inner width of the MLP; 0 = 4 x width (gpt2) or 8/3 x width, rounded up to a multiple of 32 (llama)",
             &m.mlp_width, from_zero(1 << 22), refuse},
            {"model.context", "tokens in a sequence: how far back the model sees", &m.context, from_one(1 << 22),
             refuse},
            {"model.window",
             "tokens that attention sees in each block, its own the last (a sliding window); 0 = all before it",
             &m.window, from_zero(1 << 22), refuse},
            {"model.positions",
             "the longest sequence that the model is made for; gpt2: rows of its position table; 0 = model.context",
             &m.positions, from_zero(1 << 22), refuse},
            {"model.vocabulary", "rows of the token table; 0 = as many as the tokenizer has tokens", &m.vocabulary,
             from_zero(1 << 26), refuse},
            {"model.attention",
             "fused (memory in proportion to the context) or materialised (keeps the matrix of probabilities: for the "
             "study of memory, slow)",
             words(m.attention, kAttentionKinds), kAny, bits},
            {"model.tied_embeddings", "the output projection is the token table", &m.tied_embeddings, kAny, refuse},
            {"model.qkv_bias", "llama: queries, keys and values have biases (as in Qwen2)", &m.qkv_bias, kAny, refuse},
            {"model.qk_norm", "llama: queries and keys are normalised head by head (as in Qwen3)", &m.qk_norm, kAny,
             refuse},
            {"model.norm_epsilon", "added to the variance (or mean square) in a norm", &m.norm_epsilon, kAboveZeroTo1,
             refuse},
            {"model.rope_base", "llama: base of the rotary frequencies", &m.rotary.base, kAboveZero, refuse},
            {"model.rope_scaling", "llama: rotary frequencies as they are (none) or stretched as in Llama 3.1 (llama3)",
             words(m.rotary.scaling, kRotaryScalings), kAny, refuse},
            {"model.rope_factor", "llama3 scaling: how much longer long waves become", &m.rotary.factor,
             from_one(kMostNumber), refuse},
            {"model.rope_low_frequency_factor",
             "llama3 scaling: waves longer than model.rope_original_context over this are stretched in full",
             &m.rotary.low_frequency_factor, kAboveZero, refuse},
            {"model.rope_high_frequency_factor",
             "llama3 scaling: waves shorter than model.rope_original_context over this stay",
             &m.rotary.high_frequency_factor, kAboveZero, refuse},
            {"model.rope_original_context", "llama3 scaling: the context before it was stretched",
             &m.rotary.original_context, from_one(1 << 22), refuse},
            {"model.dropout",
             "probability with which a number of the embedding, or of what attention or MLP adds, is dropped in "
             "training; which ones depends on seed, step, place and global index alone",
             &m.dropout, kFrom0Below1, announce},
            {"model.attention_dropout",
             "probability with which one of attention's probabilities is dropped in training, in the same way",
             &m.attention_dropout, kFrom0Below1, announce},
            {"model.keep_dropout_masks",
             "keep one byte for each number of model.dropout until backward instead of drawing again",
             &m.keep_dropout_masks, kAny, accept},
            {"model.initial_deviation", "standard deviation of the initial weights", &m.initial_deviation, kFromZero,
             accept},
        });
}

void add_data(std::vector<Key>& keys, Job::Data& d) {
    using enum OnResume;
    keys.insert(keys.end(),
                {
                    {"data.path",
                     "the text to learn from, a file; or a file of tokens, which ends in .bin or .idx (cleave "
                     "tokenize, nanoGPT, "
                     "llm.c, Megatron). In a run file it is relative to that file's folder",
                     &d.path, kAny, accept},
                    {"data.tokenizer",
                     "char (each character of the text is a token; UTF-8), bytes (256 tokens, any file) or bpe (see "
                     "data.tokenizer_file). With a token file, char means that its ids stand for no text "
                     "(model.vocabulary says "
                     "how many there are)",
                     words(d.tokenizer, kTokenizers), kAny, refuse},
                    {"data.tokenizer_file",
                     "bpe: a Hugging Face tokenizer.json of byte-level BPE (GPT-2, Llama 3, Qwen); in a run file it is "
                     "relative "
                     "to that file's folder",
                     &d.tokenizer_file, kAny, accept},
                    {"data.train_fraction", "first part of the text, for training; the rest is for validation",
                     &d.train_fraction, kInside01, announce},
                    {"data.mask",
                     "which tokens are labels: a file of one byte a token, 1 = a label, 0 = none (it is read, and "
                     "neither learnt nor evaluated); for a token file, or a text of bytes. Empty = every token is one. "
                     "In a run file it is relative to that file's "
                     "folder",
                     &d.mask, kAny, accept},
                    {"data.separate_documents",
                     "sequences hold several documents, and attention stays within each: positions begin anew, the "
                     "first token of a document is no label",
                     &d.separate_documents, kAny, announce},
                    {"data.document_end",
                     "the one token that ends a document: its text (\"<|endoftext|>\"), or its id where ids stand for "
                     "no text; empty = where the .idx of a Megatron file says",
                     &d.document_end, kAny, announce},
                });
}

void add_mesh(std::vector<Key>& keys, Job::Mesh& m) {
    using enum OnResume;
    keys.insert(
        keys.end(),
        {
            {"mesh.pp", "ranks along pp (stages of a pipeline: each has some of the layers)", &m.pp, kRanks, bits},
            {"mesh.dp", "ranks along dp (each has its own part of the batch); 0 = fills --ranks", &m.dp,
             from_zero(1 << 20), bits},
            {"mesh.cp", "ranks along cp (parts of a sequence)", &m.cp, kRanks, bits},
            {"mesh.tp", "ranks along tp (each has a part of every matrix, of the heads and of the vocabulary)", &m.tp,
             kRanks, bits},
        });
}

void add_pipeline(std::vector<Key>& keys, Job::Pipeline& p) {
    using enum OnResume;
    keys.insert(
        keys.end(),
        {
            {"pipeline.schedule",
             "with mesh.pp: the order of forward and backward on each stage, by name (cleave schedule --help "
             "lists them)",
             &p.schedule, kAny, bits},
            {"pipeline.schedule_file",
             "in its place a schedule of your own, in the format of `cleave schedule`; in a run file it is "
             "relative to that file's folder",
             &p.schedule_file, kAny, bits},
            {"pipeline.chunks",
             "parts of the model that a stage has, one after the other in the order of the schedule; 0 = as many "
             "as the schedule says",
             &p.chunks, from_zero(1 << 10), bits},
            {"pipeline.layers",
             "layers of each part of the model, from the first to the last, as in \"3,4,4,3\"; empty = so "
             "that all parts have about as much work, where the head counts as the layers that take as long",
             &p.layers, kAny, accept},
        });
}

void add_zero(std::vector<Key>& keys, Job::Zero& z) {
    using enum OnResume;
    keys.insert(
        keys.end(),
        {
            {"zero.stage",
             "what the ranks of dp hold in parts instead of whole: 0 nothing, 1 the optimizer's state, 2 gradients as "
             "well, 3 parameters as well, which are gathered where they are used",
             &z.stage, from_zero(3), bits},
            {"zero.reduce",
             "stages 2 and 3: gradients are reduced after each microbatch, or once a step (as stages 0 and 1 always "
             "do), for fewer bytes and the memory of stage 1's gradients",
             words(z.reduce, kZeroReduce), kAny, bits},
            {"zero.group",
             "ranks of dp, neighbours, that share the parts between them; the groups hold the same. It divides dp; 0 = "
             "all of dp",
             &z.group, from_zero(1 << 20), bits},
        });
}

void add_train(std::vector<Key>& keys, Job::Train& t) {
    using enum OnResume;
    keys.insert(
        keys.end(),
        {
            {"train.steps", "optimizer steps", &t.steps, from_one(kMostSteps), announce},
            {"train.batch", "sequences in a step, over all ranks", &t.batch, from_one(1 << 24), announce},
            {"train.microbatch",
             "sequences in one forward pass of a rank; 0 = its whole part of the batch. batch / (dp x microbatch) "
             "passes make a step",
             &t.microbatch, from_zero(1 << 24), bits},
            {"train.seed", "initial weights and the order of samples follow from it", &t.seed, kFromZero, announce},
            {"train.dtype", "of the computation: f64, f32 or bf16 (sums and master weights in f32)",
             words(t.dtype, kDTypes), kAny, refuse},
            {"train.lr", "highest learning rate, at the end of the warm-up", &t.lr, kAboveZero, announce},
            {"train.min_lr", "learning rate of the last step; where it is not set, at most a tenth of train.lr",
             &t.min_lr, kFromZero, announce},
            {"train.warmup_steps",
             "steps in which the learning rate rises from 0, in a straight line; where it is not set, at most a tenth "
             "of train.steps",
             &t.warmup_steps, kStepsFromZero, announce},
            {"train.lr_schedule",
             "from train.lr to train.min_lr after the warm-up: cosine, linear, wsd (stays, and falls in the last "
             "train.decay_steps), or constant (stays)",
             words(t.lr_schedule, kLrSchedules), kAny, announce},
            {"train.decay_steps", "wsd: steps of the fall at the end; 0 = a tenth of train.steps", &t.decay_steps,
             kStepsFromZero, announce},
            {"train.ramp_batch",
             "sequences in the batch of the first step, which then grows in equal steps of as many to train.batch; 0 = "
             "train.batch from the start",
             &t.ramp_batch, from_zero(1 << 24), announce},
            {"train.ramp_steps", "steps until the batch has grown from train.ramp_batch to train.batch", &t.ramp_steps,
             kStepsFromZero, announce},
            {"train.optimizer", "adamw or sgd", words(t.optimizer, kOptimizers), kAny, refuse},
            {"train.beta1", "AdamW: decay of the first moment", &t.beta1, kFrom0Below1, announce},
            {"train.beta2", "AdamW: decay of the second moment", &t.beta2, kFrom0Below1, announce},
            {"train.epsilon", "AdamW: added to the root of the second moment", &t.epsilon, kAboveZeroTo1, announce},
            {"train.weight_decay", "decay of matrices and tables, times the learning rate; norms and biases have none",
             &t.weight_decay, kFromZero, announce},
            {"train.clip", "largest global norm of the gradients, larger ones are scaled to it; 0 = off", &t.clip,
             kFromZero, announce},
            {"train.z_loss",
             "coefficient of the z-loss (PaLM), the mean over labels of the squared log-sum-exp of the logits, which "
             "is "
             "added to what is minimised, not to the loss that is shown; 0 = off, PaLM has 1e-4",
             &t.z_loss, from_zero(1e3), announce},
            {"train.skip_nonfinite",
             "steps in a row whose loss or gradient norm may be infinite or no number: they are skipped by all ranks; "
             "one more stops the run. 0 = the first one stops it",
             &t.skip_nonfinite, kStepsFromZero, announce},
            {"train.evaluate_every", "steps between evaluations; 0 = only at the end", &t.evaluate_every,
             kStepsFromZero, accept},
            {"train.evaluate_batches", "batches of each part that an evaluation takes", &t.evaluate_batches,
             from_one(1e9), accept},
            {"train.evaluate_all_at_end", "the last evaluation covers the whole validation part",
             &t.evaluate_all_at_end, kAny, accept},
            {"train.checkpoint_every", "steps between checkpoints; 0 = only at the end", &t.checkpoint_every,
             kStepsFromZero, accept},
            {"train.bucket_bytes", "gradients are reduced over the ranks in buckets of about this size",
             &t.bucket_bytes, from_one(1e12), accept},
            {"train.count_underflow",
             "metrics.jsonl counts, step by step, gradients below the smallest normal number, updates too small to "
             "change their weight, and (bf16) weights whose update shows in the f32 copy alone",
             &t.count_underflow, kAny, accept},
        });
}

void add_rest(std::vector<Key>& keys, Job& job) {
    using enum OnResume;
    keys.insert(
        keys.end(),
        {
            {"sample.prompt",
             "the beginning of the sample that is generated at the end; empty = a line break or the first token",
             &job.sample.prompt, kAny, accept},
            {"sample.tokens", "length of the sample; 0 = no sample", &job.sample.tokens, from_zero(1e9), accept},
            {"sample.temperature", "below 1 likelier tokens become likelier still; 0 = always the likeliest",
             &job.sample.temperature, from_zero(kMostTemperature), accept},
            {"sample.top_k", "draw from the k likeliest tokens only; 0 = from all", &job.sample.top_k,
             from_zero(1 << 26), accept},
            {"sample.top_p",
             "draw from the fewest likeliest tokens whose probabilities add up to it (nucleus), after temperature and "
             "top_k; 1 = from all",
             &job.sample.top_p, kAboveZeroTo1, accept},
            {"run.folder", "where the run's files go; empty = out/ and the run file's name", &job.run.folder, kAny,
             accept},
            {"run.trace_step", "the step whose trace every rank writes, for ui.perfetto.dev; 0 = none",
             &job.run.trace_step, kStepsFromZero, accept},
            {"comm.timeout_s", "seconds that a rank waits for another before the run fails and names it",
             &job.comm.timeout_s, kSeconds, accept},
        });
}

}  // namespace

std::vector<Key> keys_of(Job& job) {
    std::vector<Key> keys;
    add_top(keys, job);
    add_model(keys, job);
    add_data(keys, job.data);
    add_mesh(keys, job.mesh);
    add_pipeline(keys, job.pipeline);
    add_zero(keys, job.zero);
    add_train(keys, job.train);
    add_rest(keys, job);
    return keys;
}

std::string_view section_title(std::string_view section) {
    if (section.empty()) return "the whole run";
    if (section == "model") return "the transformer";
    if (section == "data") return "the text it learns from";
    if (section == "mesh") return "how ranks share the work";
    if (section == "pipeline") return "how layers are cut over mesh.pp, and the order of work";
    if (section == "zero") return "what the ranks of dp hold in parts (ZeRO)";
    if (section == "train") return "how it learns";
    if (section == "sample") return "the text it writes at the end";
    if (section == "run") return "where files go";
    if (section == "comm") return "communication between ranks";
    broken_invariant(__FILE__, __LINE__, "section", std::string(section));
}

void follow_other_keys(Job& job, const std::function<bool(std::string_view)>& is_set) {
    constexpr int kPart = 10;
    Job::Train& t = job.train;
    if (!is_set("train.warmup_steps")) t.warmup_steps = std::min(t.warmup_steps, t.steps / kPart);
    if (!is_set("train.min_lr")) t.min_lr = std::min(t.min_lr, t.lr / kPart);
}

}  // namespace cleave
