#include "train/hugging_face_config.h"

#include <algorithm>

#include "base/error.h"
#include "train/job_check.h"
#include "train/json_fields.h"
#include "train/model_check.h"

namespace cleave {

namespace {

using kernels::RotaryScaling;

constexpr std::int64_t kMostContext = 1024;  // for training, unless the user says otherwise

// Names of files, of special tokens, of generation's defaults, of how the file came to be: no influence on the model.
constexpr std::string_view kIgnored =
    " _name_or_path architectures auto_map bad_words_ids begin_suppress_tokens bos_token_id "
    "chunk_size_feed_forward decoder_start_token_id diversity_penalty do_sample dtype early_stopping "
    "encoder_no_repeat_ngram_size eos_token_id exponential_decay_length_penalty finetuning_task "
    "forced_bos_token_id forced_eos_token_id gradient_checkpointing id2label is_decoder "
    "keys_to_ignore_at_inference label2id length_penalty max_length min_length model_type n_ctx "
    "no_repeat_ngram_size num_beam_groups num_beams num_return_sequences output_attentions "
    "output_hidden_states output_scores pad_token_id prefix problem_type remove_invalid_values "
    "repetition_penalty return_dict return_dict_in_generate sep_token_id summary_activation "
    "summary_first_dropout summary_proj_to_labels summary_type summary_use_proj suppress_tokens "
    "task_specific_params temperature tf_legacy_loss tokenizer_class top_k top_p torch_dtype torchscript "
    "transformers_version typical_p use_bfloat16 use_cache ";

struct Architecture {
    std::string_view model_type;
    std::string_view name;
    Family family;
    bool qkv_bias;
    bool qk_norm;
};
constexpr Architecture kArchitectures[] = {
    {"gpt2", "GPT2LMHeadModel", Family::gpt2, false, false},
    {"llama", "LlamaForCausalLM", Family::llama, false, false},
    {"qwen2", "Qwen2ForCausalLM", Family::llama, true, false},
    {"qwen3", "Qwen3ForCausalLM", Family::llama, false, true},
};

class ConfigReader {
  public:
    ConfigReader(const Json& json, std::string_view source) : json_(json), source_(source), fields_(json, source) {}

    HuggingFaceModel read() {
        if (json_.members() == nullptr) throw UserError("{}: found no JSON object", source_);
        const Architecture& architecture = find_architecture();
        HuggingFaceModel result;
        result.architecture = architecture.name;
        ModelConfig& m = result.model;
        m.family = architecture.family;
        m.qkv_bias = architecture.qkv_bias;
        m.qk_norm = architecture.qk_norm;
        if (m.family == Family::gpt2)
            read_gpt2(m);
        else
            read_llama(m, architecture);
        m.context = std::min(m.positions, kMostContext);
        throw_problems(fields_.problems());
        std::vector<std::string> problems = check_model(m);
        for (std::string& problem : problems) problem = fmt::format("{}: {}", source_, problem);
        throw_problems(problems);
        if (const std::string keys = fields_.unknown(kIgnored); !keys.empty())
            notes_.push_back("keys that Cleave does not know have no effect: " + keys);
        result.notes = std::move(notes_);
        return result;
    }

  private:
    double probability(std::string_view key, double missing) {
        const Json* found = fields_.value(key);
        if (found == nullptr) return missing;
        const double number = found->is_number() ? found->number() : -1;
        if (!(number >= 0 && number < 1))
            fields_.refuse(key, "found {}; accepted: a number from 0, below 1", found->dump());
        return number;
    }

    // Ours is one number for the embedding and what a block adds, and one for attention's probabilities.
    void read_dropout(ModelConfig& m) {
        constexpr double kMissing = 0.1;  // GPT2Config's
        const double embedding = probability("embd_pdrop", kMissing);
        const double residual = probability("resid_pdrop", kMissing);
        if (embedding == residual)
            m.dropout = embedding;
        else
            notes_.push_back(
                fmt::format("embd_pdrop = {} and resid_pdrop = {} are not taken over: model.dropout is one number for "
                            "both, and stays 0 unless it is set",
                            embedding, residual));
        m.attention_dropout = probability("attn_pdrop", kMissing);
    }

    // Throws UserError where there is none: nothing else in the file has a meaning then.
    const Architecture& find_architecture() {
        std::string types;
        const Json* type = fields_.value("model_type");
        for (const Architecture& a : kArchitectures) {
            if (type != nullptr && *type == Json(a.model_type) && names(a)) return a;
            types += fmt::format("{}\"{}\"", types.empty() ? "" : ", ", a.model_type);
        }
        if (fields_.problems().empty())
            fields_.refuse("model_type", "found {}; accepted: {}", type == nullptr ? "none" : type->dump(), types);
        throw UserError("{}", fields_.problems().front());
    }

    // Whether `architectures`, where it is there, names this one alone.
    bool names(const Architecture& a) {
        const Json* list = fields_.value("architectures");
        if (list == nullptr || (list->items() != nullptr && *list == Json(Json::Array{a.name}))) return true;
        fields_.refuse("architectures", "found {}; accepted with model_type \"{}\": [\"{}\"]", list->dump(),
                       a.model_type, a.name);
        return false;
    }

    void read_gpt2(ModelConfig& m) {
        m.layers = fields_.whole("n_layer", 10000);
        m.heads = fields_.whole("n_head", 65536);
        m.width = fields_.whole("n_embd", 1 << 20);
        m.positions = fields_.whole("n_positions", 1 << 22);
        m.vocabulary = fields_.whole("vocab_size", 1 << 26);
        if (fields_.value("n_inner") != nullptr) m.mlp_width = fields_.whole("n_inner", 1 << 22);
        m.norm_epsilon = fields_.above_zero("layer_norm_epsilon", 1e-5);
        m.initial_deviation = fields_.above_zero("initializer_range", 0.02);
        m.tied_embeddings = fields_.truth("tie_word_embeddings", true);
        fields_.only("activation_function", "gelu_new");
        fields_.only("scale_attn_weights", true);
        for (const char* key : {"scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention",
                                "is_encoder_decoder", "tie_encoder_decoder"})
            fields_.only(key, false);
        read_dropout(m);
    }

    void read_llama(ModelConfig& m, const Architecture& architecture) {
        const bool llama = architecture.model_type == "llama";
        m.layers = fields_.whole("num_hidden_layers", 10000);
        m.heads = fields_.whole("num_attention_heads", 65536);
        m.width = fields_.whole("hidden_size", 1 << 20);
        m.mlp_width = fields_.whole("intermediate_size", 1 << 22);
        m.positions = fields_.whole("max_position_embeddings", 1 << 22);
        m.vocabulary = fields_.whole("vocab_size", 1 << 26);
        const std::int64_t kv_heads = fields_.whole("num_key_value_heads", 65536, llama ? m.heads : 0);
        m.kv_heads = kv_heads == m.heads ? 0 : kv_heads;
        constexpr std::int64_t kQwen3HeadWidth = 128;
        if (fields_.value("head_dim") != nullptr || m.qk_norm)
            m.head_width = fields_.whole("head_dim", 1 << 16, kQwen3HeadWidth);
        if (m.head_width * m.heads == m.width) m.head_width = 0;
        m.norm_epsilon = fields_.above_zero("rms_norm_eps", 1e-6);
        m.initial_deviation = fields_.above_zero("initializer_range", 0.02);
        m.tied_embeddings = fields_.truth("tie_word_embeddings", false);
        read_rotary(m.rotary);
        fields_.only("hidden_act", "silu");
        fields_.only("partial_rotary_factor", 1);
        // Qwen2's are always there and have no key.
        for (const char* key :
             {"attention_bias", "mlp_bias", "is_encoder_decoder", "tie_encoder_decoder", "add_cross_attention"})
            fields_.only(key, false);
        if (fields_.value("pretraining_tp") != nullptr) fields_.only("pretraining_tp", 1);
        read_window(llama);
        m.attention_dropout = probability("attention_dropout", 0);
    }

    void read_window(bool llama) {
        fields_.value("max_window_layers");
        const Json* window = fields_.value("sliding_window");
        const bool used = fields_.truth("use_sliding_window", llama && window != nullptr);
        if (used)
            fields_.refuse(fields_.value("use_sliding_window") == nullptr ? "sliding_window" : "use_sliding_window",
                           "found {} (a window of {} tokens); accepted: none", used,
                           window == nullptr ? "?" : window->dump());
        const Json* layers = fields_.value("layer_types");
        if (layers == nullptr) return;
        const auto* items = layers->items();
        if (items == nullptr || !std::all_of(items->begin(), items->end(),
                                             [](const Json& layer) { return layer == Json("full_attention"); }))
            fields_.refuse("layer_types", "found {}; accepted: \"full_attention\" for each layer", layers->dump());
    }

    // {"rope_theta": .., "rope_scaling": {"rope_type": .., ..}}, or as newer files have it, both in "rope_parameters".
    void read_rotary(kernels::RotaryFrequencies& rotary) {
        const Json* base = fields_.value("rope_theta");
        const Json* scaling = fields_.value("rope_scaling");
        std::string_view section = "rope_scaling";
        if (const Json* parameters = fields_.value("rope_parameters"); parameters != nullptr) {
            scaling = parameters;
            section = "rope_parameters";
            if (base == nullptr) base = parameters->find("rope_theta");
        }
        rotary.base = fields_.above_zero(base, "rope_theta", 10000.0);
        if (scaling == nullptr) return;
        const Json* type = scaling->find("rope_type");
        if (type == nullptr) type = scaling->find("type");
        if (type != nullptr && *type == Json("llama3"))
            read_llama3(rotary, *scaling, section);
        else if (type == nullptr || *type != Json("default"))
            fields_.refuse(section, "found {}; accepted: a \"rope_type\" of \"default\" or \"llama3\"",
                           scaling->dump());
    }

    void read_llama3(kernels::RotaryFrequencies& rotary, const Json& scaling, std::string_view section) {
        const auto number = [&](std::string_view key, double missing) {
            const std::string name = fmt::format("{}.{}", section, key);
            const Json* found = scaling.find(key);
            if (found == nullptr) fields_.refuse(name, "it is missing; accepted: a number above 0");
            return fields_.above_zero(found, name, missing);
        };
        rotary.scaling = RotaryScaling::llama3;
        rotary.factor = number("factor", 8);
        rotary.low_frequency_factor = number("low_freq_factor", 1);
        rotary.high_frequency_factor = number("high_freq_factor", 4);
        const double context = number("original_max_position_embeddings", 8192);
        rotary.original_context = static_cast<std::int64_t>(std::min(context, 0x1p22));
        if (static_cast<double>(rotary.original_context) != context)
            fields_.refuse(fmt::format("{}.original_max_position_embeddings", section),
                           "found {}; accepted: an integer from 1 to {}", context, 1 << 22);
    }

    const Json& json_;
    std::string_view source_;
    JsonFields fields_;
    std::vector<std::string> notes_;
};

void set_gpt2(Json& json, const ModelConfig& m) {
    json.set("n_layer", m.layers).set("n_head", m.heads).set("n_embd", m.width);
    json.set("n_inner", m.mlp_width == 0 ? Json() : Json(m.mlp_width));
    json.set("n_positions", m.most_positions());
    json.set("activation_function", "gelu_new").set("layer_norm_epsilon", m.norm_epsilon);
    json.set("attn_pdrop", m.attention_dropout).set("embd_pdrop", m.dropout).set("resid_pdrop", m.dropout);
}

void set_llama(Json& json, const ModelConfig& m) {
    json.set("num_hidden_layers", m.layers).set("num_attention_heads", m.heads);
    json.set("num_key_value_heads", m.key_value_heads()).set("hidden_size", m.width);
    json.set("head_dim", m.head_channels()).set("intermediate_size", m.hidden_mlp());
    json.set("max_position_embeddings", m.most_positions());
    json.set("hidden_act", "silu").set("rms_norm_eps", m.norm_epsilon).set("rope_theta", m.rotary.base);
    json.set("attention_dropout", m.attention_dropout);
    if (!m.qkv_bias) json.set("attention_bias", false);
    if (m.rotary.scaling == RotaryScaling::none)
        json.set("rope_scaling", Json());
    else
        json.set("rope_scaling", Json{{"rope_type", "llama3"},
                                      {"factor", m.rotary.factor},
                                      {"low_freq_factor", m.rotary.low_frequency_factor},
                                      {"high_freq_factor", m.rotary.high_frequency_factor},
                                      {"original_max_position_embeddings", m.rotary.original_context}});
}

}  // namespace

HuggingFaceModel read_hugging_face_config(const Json& config, std::string_view source) {
    return ConfigReader(config, source).read();
}

Json hugging_face_config(const ModelConfig& m, DType stored) {
    const auto at = std::find_if(std::begin(kArchitectures), std::end(kArchitectures), [&](const Architecture& a) {
        return a.family == m.family && a.qkv_bias == m.qkv_bias && a.qk_norm == m.qk_norm;
    });
    if (at == std::end(kArchitectures))
        throw UserError(
            "model.qkv_bias and model.qk_norm: found both; no architecture of Hugging Face has both: Qwen2 has the "
            "first, "
            "Qwen3 the second, Llama neither");
    if (m.window != 0)
        throw UserError("model.window: found {}; accepted: 0. Windows are not written to a config.json", m.window);
    Json json{{"architectures", Json(Json::Array{at->name})}, {"model_type", at->model_type}};
    if (m.family == Family::gpt2)
        set_gpt2(json, m);
    else
        set_llama(json, m);
    json.set("vocab_size", m.vocabulary).set("tie_word_embeddings", m.tied_embeddings);
    json.set("initializer_range", m.initial_deviation)
        .set("torch_dtype", stored == DType::bf16 ? "bfloat16" : "float32");
    // The classes' own defaults are tokens of their first models, which another vocabulary may not have.
    json.set("bos_token_id", Json()).set("eos_token_id", Json());
    return json;
}

}  // namespace cleave
