// A run as data: everything that `cleave train` can be told, with its default. A default is stated here and nowhere
// else; job_keys.h lists the same fields as keys with their meaning, job_check.h says what is wrong with a job. Thread
// rule: a value.
#pragma once

#include <cstdint>
#include <string>

#include "base/dtype.h"
#include "engine/tape.h"
#include "model/model_config.h"
#include "parallel/zero.h"

namespace cleave {

// ids: of a token file that names no tokenizer; not among the words of data.tokenizer.
enum class TokenizerKind : std::uint8_t { characters, bytes, bpe, ids };
enum class OptimizerKind : std::uint8_t { adamw, sgd };
// What backward has of the stream that sequence parallelism gathers for the products (parallel/sequence_parallel.h).
enum class SequenceInputs : std::uint8_t { gathered, kept };
enum class LrSchedule : std::uint8_t { cosine, linear, wsd, constant };

struct Job {
    struct Data {
        std::string path;  // a text file, or a token file (token_file.h)
        TokenizerKind tokenizer = TokenizerKind::characters;
        std::string tokenizer_file;  // bpe: a tokenizer.json
        double train_fraction = 0.9;
        std::string mask;                 // a file of one byte a token: 0 = not a label; empty = every token is one
        bool separate_documents = false;  // attention stays within a document
        std::string document_end;         // the token that ends a document; empty = as the token file says
    };
    struct Mesh {
        int pp = 1;
        int dp = 0;  // 0 fills the ranks
        int cp = 1;
        int tp = 1;
    };
    struct Pipeline {
        std::string schedule = "1f1b";  // a kind (parallel/schedule_kinds.h)
        std::string schedule_file;      // or one in a file (parallel/schedule_file.h)
        int chunks = 0;                 // virtual stages of a stage; 0 = the schedule's own
        std::string layers;             // of each virtual stage, "3,4,4,3"; empty = by work
    };
    struct Train {
        std::int64_t steps = 2000;
        std::int64_t batch = 12;      // sequences in the global batch, whatever the layout
        std::int64_t microbatch = 0;  // sequences per rank and forward pass; 0 = the rank's whole share
        std::int64_t seed = 1;
        DType dtype = DType::f32;
        double lr = 1e-3;
        double min_lr = 1e-4;
        std::int64_t warmup_steps = 100;  // where it is not set, at most a tenth of the steps
        LrSchedule lr_schedule = LrSchedule::cosine;
        std::int64_t decay_steps = 0;  // wsd: length of the decay at the end; 0 = a tenth of the steps
        std::int64_t ramp_batch = 0;   // sequences in the first step's batch; 0 = train.batch from the start
        std::int64_t ramp_steps = 0;   // over which the batch grows from it to train.batch
        OptimizerKind optimizer = OptimizerKind::adamw;
        double beta1 = 0.9;
        double beta2 = 0.99;
        double epsilon = 1e-8;
        double weight_decay = 0.1;
        double clip = 1.0;                  // 0 = off
        double z_loss = 0;                  // coefficient; 0 = off
        std::int64_t skip_nonfinite = 0;    // steps in a row
        std::int64_t evaluate_every = 250;  // steps; 0 = only at the end
        std::int64_t evaluate_batches = 20;
        bool evaluate_all_at_end = true;
        bool count_underflow = false;
        std::int64_t checkpoint_every = 250;  // steps; 0 = only at the end
        std::int64_t bucket_bytes = 4 << 20;
    };
    struct Sample {
        std::string prompt;
        std::int64_t tokens = 300;
        double temperature = 0.8;  // 0 = always the most likely token
        std::int64_t top_k = 0;    // 0 = off
        double top_p = 1;          // 1 = off
    };
    struct Run {
        std::string folder;           // empty = out/ and the run file's name
        std::int64_t trace_step = 0;  // 0 = none
    };
    struct Zero {
        int stage = 0;
        ZeroReduce reduce = ZeroReduce::microbatch;
        int group = 0;  // ranks along dp that share the shards; 0 = all
    };
    struct Comm {
        double timeout_s = 60;
    };

    ModelConfig model;
    std::string weights;  // model.weights: where the initial ones come from; empty = random
    Data data;
    Mesh mesh;
    Pipeline pipeline;
    Train train;
    Sample sample;
    Run run;
    Zero zero;
    Comm comm;
    Recompute recompute = Recompute::none;
    bool sequence_parallel = false;
    SequenceInputs sequence_parallel_inputs = SequenceInputs::gathered;
    int tensor_parallel_chunks = 1;
};

// The ranks along dp when the job runs on `ranks` ranks; 0 where pp x cp x tp does not divide them.
int data_parallel_ranks(const Job& job, int ranks);
// How the job's parameters lie in memory.
ZeroOptions zero_options(const Job& job);
// Sequences per rank and forward pass, when dp ranks share the batch, and forward passes of a step with a batch of
// `batch` sequences. The job is checked.
std::int64_t microbatch_size(const Job& job, int dp);
std::int64_t accumulation(const Job& job, int dp, std::int64_t batch);
// In how many chunks the tensor-parallel ranks communicate: tensor_parallel_chunks, or the sequences of a microbatch
// where those are fewer.
std::int64_t communication_chunks(const Job& job, int dp);

}  // namespace cleave
