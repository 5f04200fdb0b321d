#include "config/other_names.h"

#include <algorithm>

namespace cleave {

namespace {

struct OtherName {
    std::string_view name;  // lower case, _ between words
    std::string_view key;
};

// Of Megatron-LM, DeepSpeed, PyTorch (FSDP, torchtitan), Hugging Face, nanoGPT and llm.c.
constexpr OtherName kOtherNames[] = {
    {"mesh.sp", "sequence_parallel"},
    {"sp", "sequence_parallel"},
    {"sequence_parallelism", "sequence_parallel"},
    {"mesh.mp", "mesh.tp"},
    {"mp", "mesh.tp"},
    {"tensor_parallel", "mesh.tp"},
    {"tensor_parallelism", "mesh.tp"},
    {"tensor_parallel_size", "mesh.tp"},
    {"tensor_parallel_degree", "mesh.tp"},
    {"tensor_model_parallel_size", "mesh.tp"},
    {"model_parallel", "mesh.tp"},
    {"model_parallel_size", "mesh.tp"},
    {"tp_size", "mesh.tp"},
    {"data_parallel", "mesh.dp"},
    {"data_parallelism", "mesh.dp"},
    {"data_parallel_size", "mesh.dp"},
    {"data_parallel_replicate_degree", "mesh.dp"},
    {"ddp", "mesh.dp"},
    {"dp_size", "mesh.dp"},
    {"pipeline_parallel", "mesh.pp"},
    {"pipeline_parallelism", "mesh.pp"},
    {"pipeline_parallel_size", "mesh.pp"},
    {"pipeline_parallel_degree", "mesh.pp"},
    {"pipeline_model_parallel_size", "mesh.pp"},
    {"pp_size", "mesh.pp"},
    {"context_parallel", "mesh.cp"},
    {"context_parallelism", "mesh.cp"},
    {"context_parallel_size", "mesh.cp"},
    {"cp_size", "mesh.cp"},
    {"zero", "zero.stage"},
    {"zero.level", "zero.stage"},
    {"zero_stage", "zero.stage"},
    {"zero_level", "zero.stage"},
    {"zero_optimization", "zero.stage"},
    {"zero_optimization.stage", "zero.stage"},
    {"distributed_optimizer", "zero.stage"},
    {"use_distributed_optimizer", "zero.stage"},
    {"fsdp", "zero.stage"},
    {"fully_shard", "zero.stage"},
    {"sharding_strategy", "zero.stage"},
    {"zero_hpz_partition_size", "zero.group"},
    {"data_parallel_shard_degree", "zero.group"},
    {"reduce_bucket_size", "train.bucket_bytes"},
    {"tp_comm_overlap", "tensor_parallel_chunks"},
    {"activation_checkpointing", "recompute"},
    {"gradient_checkpointing", "recompute"},
    {"recompute_granularity", "recompute"},
    {"num_layers", "model.layers"},
    {"n_layer", "model.layers"},
    {"n_layers", "model.layers"},
    {"num_hidden_layers", "model.layers"},
    {"n_head", "model.heads"},
    {"n_heads", "model.heads"},
    {"num_heads", "model.heads"},
    {"num_attention_heads", "model.heads"},
    {"n_kv_heads", "model.kv_heads"},
    {"num_key_value_heads", "model.kv_heads"},
    {"num_query_groups", "model.kv_heads"},
    {"n_embd", "model.width"},
    {"d_model", "model.width"},
    {"hidden_size", "model.width"},
    {"head_dim", "model.head_width"},
    {"kv_channels", "model.head_width"},
    {"d_ff", "model.mlp_width"},
    {"intermediate_size", "model.mlp_width"},
    {"ffn_hidden_size", "model.mlp_width"},
    {"block_size", "model.context"},
    {"seq_len", "model.context"},
    {"seq_length", "model.context"},
    {"sequence_length", "model.context"},
    {"max_position_embeddings", "model.positions"},
    {"n_positions", "model.positions"},
    {"vocab_size", "model.vocabulary"},
    {"batch_size", "train.batch"},
    {"global_batch_size", "train.batch"},
    {"train_batch_size", "train.batch"},
    {"micro_batch_size", "train.microbatch"},
    {"per_device_train_batch_size", "train.microbatch"},
    {"train_micro_batch_size_per_gpu", "train.microbatch"},
    {"gradient_accumulation_steps", "train.microbatch"},
    {"learning_rate", "train.lr"},
    {"min_learning_rate", "train.min_lr"},
    {"max_steps", "train.steps"},
    {"max_iters", "train.steps"},
    {"train_iters", "train.steps"},
    {"warmup_iters", "train.warmup_steps"},
    {"lr_scheduler_type", "train.lr_schedule"},
    {"lr_decay_style", "train.lr_schedule"},
    {"grad_clip", "train.clip"},
    {"clip_grad", "train.clip"},
    {"max_grad_norm", "train.clip"},
    {"gradient_clipping", "train.clip"},
    {"precision", "train.dtype"},
    {"save_steps", "train.checkpoint_every"},
    {"save_interval", "train.checkpoint_every"},
    {"eval_interval", "train.evaluate_every"},
    {"output_dir", "run.folder"},
    {"init_from", "model.weights"},
    {"model_name_or_path", "model.weights"},
};

}  // namespace

std::string_view key_known_as(std::string_view name) {
    std::string plain(name);
    for (char& c : plain) c = c == '-' ? '_' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const std::string last = plain.substr(plain.rfind('.') + 1);
    for (const std::string& word : {plain, last}) {
        const auto* found = std::find_if(std::begin(kOtherNames), std::end(kOtherNames),
                                         [&](const OtherName& other) { return other.name == word; });
        if (found != std::end(kOtherNames)) return found->key;
    }
    return {};
}

}  // namespace cleave
