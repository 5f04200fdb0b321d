// config.json: what is accepted means what it means in Transformers; everything else is refused by name and value.
#include "train/hugging_face_config.h"

#include <gmock/gmock.h>

#include "support/scratch.h"

namespace cleave {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Json parse(const char* text) {
    return Json::parse(text, "test");
}

Json llama() {
    return parse(R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 3,
        "num_attention_heads": 8, "num_key_value_heads": 2, "hidden_size": 64, "intermediate_size": 96,
        "max_position_embeddings": 4096, "vocab_size": 300, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
        "hidden_act": "silu", "tie_word_embeddings": false, "torch_dtype": "bfloat16"})");
}

Json gpt2() {
    return parse(R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 2, "n_head": 4,
        "n_embd": 32, "n_positions": 128, "n_ctx": 128, "vocab_size": 300, "layer_norm_epsilon": 1e-06,
        "activation_function": "gelu_new", "resid_pdrop": 0.1})");
}

std::string config_refusal(Json config) {
    return user_error([&] { read_hugging_face_config(config, "config.json"); });
}

TEST(HuggingFaceConfig, ReadsLlama) {
    const HuggingFaceModel read = read_hugging_face_config(llama(), "config.json");
    const ModelConfig& m = read.model;
    EXPECT_EQ(read.architecture, "LlamaForCausalLM");
    EXPECT_THAT(read.notes, IsEmpty());
    EXPECT_EQ(m.family, Family::llama);
    EXPECT_EQ(m.layers, 3);
    EXPECT_EQ(m.key_value_heads(), 2);
    EXPECT_EQ(m.head_channels(), 8);
    EXPECT_EQ(m.hidden_mlp(), 96);
    EXPECT_EQ(m.positions, 4096);
    EXPECT_EQ(m.context, 1024);
    EXPECT_EQ(m.norm_epsilon, 1e-5);
    EXPECT_EQ(m.rotary, kernels::RotaryFrequencies(5e5));
    EXPECT_FALSE(m.tied_embeddings);
}

TEST(HuggingFaceConfig, MissingKeysMeanWhatTheyMeanInTransformers) {
    const ModelConfig llama2 =
        read_hugging_face_config(
            parse(R"({"model_type": "llama", "num_hidden_layers": 1, "num_attention_heads": 4, "hidden_size": 32,
              "intermediate_size": 8, "max_position_embeddings": 8, "vocab_size": 9, "rope_scaling": null})"),
            "config.json")
            .model;
    EXPECT_EQ(llama2.key_value_heads(), 4);
    EXPECT_EQ(llama2.rotary.base, 1e4);
    EXPECT_EQ(llama2.norm_epsilon, 1e-6);
    EXPECT_FALSE(llama2.tied_embeddings);
    const HuggingFaceModel read = read_hugging_face_config(gpt2(), "config.json");
    EXPECT_TRUE(read.model.tied_embeddings);
    EXPECT_EQ(read.model.hidden_mlp(), 128);
    EXPECT_EQ(read.model.norm_epsilon, 1e-6);
    EXPECT_EQ(read.model.context, 128);
    EXPECT_EQ(read.model.dropout, 0.1);  // resid_pdrop; embd_pdrop and attn_pdrop are missing, which is 0.1
    EXPECT_EQ(read.model.attention_dropout, 0.1);
    EXPECT_THAT(read.notes, IsEmpty());
    Json qwen3 = llama().set("model_type", "qwen3").set("architectures", Json::array().push("Qwen3ForCausalLM"));
    EXPECT_EQ(read_hugging_face_config(qwen3, "config.json").model.head_channels(), 128);
}

TEST(HuggingFaceConfig, DropoutIsTakenOverWhereItFitsAndNamedWhereNot) {
    const auto read = [](const Json& config) { return read_hugging_face_config(config, "config.json"); };
    const HuggingFaceModel equal = read(gpt2().set("resid_pdrop", 0.2).set("embd_pdrop", 0.2).set("attn_pdrop", 0));
    EXPECT_EQ(equal.model.dropout, 0.2);
    EXPECT_EQ(equal.model.attention_dropout, 0);
    EXPECT_THAT(equal.notes, IsEmpty());
    const HuggingFaceModel unequal = read(gpt2().set("embd_pdrop", 0.3).set("attn_pdrop", 0.0));
    EXPECT_EQ(unequal.model.dropout, 0);
    EXPECT_THAT(unequal.notes, ElementsAre(AllOf(HasSubstr("embd_pdrop = 0.3 and resid_pdrop = 0.1"),
                                                 HasSubstr("not taken over"), HasSubstr("model.dropout"))));
    const HuggingFaceModel attention = read(llama().set("attention_dropout", 0.25));
    EXPECT_EQ(attention.model.dropout, 0);
    EXPECT_EQ(attention.model.attention_dropout, 0.25);
    EXPECT_THAT(attention.notes, IsEmpty());
    for (const Json& wrong : {Json(1), Json(-0.1), Json("much")})
        EXPECT_THAT(config_refusal(gpt2().set("embd_pdrop", wrong)), HasSubstr("embd_pdrop: found " + wrong.dump()));
    // And out again.
    const Json out = hugging_face_config(equal.model, DType::f32);
    EXPECT_EQ(read(out).model.dropout, 0.2);
    EXPECT_THAT(read(out).notes, IsEmpty());
    EXPECT_EQ(read(hugging_face_config(attention.model, DType::f32)).model.attention_dropout, 0.25);
}

TEST(HuggingFaceConfig, EverythingUnsupportedIsNamedAtOnce) {
    Json config = llama();
    config.set("hidden_act", "gelu").set("attention_bias", true).set("mlp_bias", true).set("sliding_window", 1024);
    config.set("rope_scaling", Json{{"type", "yarn"}, {"factor", 4.0}}).set("vocab_size", 0);
    EXPECT_THAT(config_refusal(config),
                AllOf(HasSubstr("6 problems"), HasSubstr("config.json: hidden_act: found \"gelu\"; accepted: \"silu\""),
                      HasSubstr("attention_bias: found true"), HasSubstr("mlp_bias: found true"),
                      HasSubstr("sliding_window: found true (a window of 1024 tokens)"),
                      HasSubstr("rope_scaling: found {\"type\": \"yarn\", \"factor\": 4.0}"),
                      HasSubstr("vocab_size: found 0")));
    EXPECT_THAT(config_refusal(gpt2().set("activation_function", "relu").set("scale_attn_by_inverse_layer_idx", true)),
                AllOf(HasSubstr("activation_function: found \"relu\"; accepted: \"gelu_new\""),
                      HasSubstr("scale_attn_by_inverse_layer_idx: found true")));
}

TEST(HuggingFaceConfig, OtherModelsAreRefusedByName) {
    EXPECT_THAT(config_refusal(llama().set("model_type", "mistral")),
                HasSubstr("model_type: found \"mistral\"; accepted: \"gpt2\", \"llama\", \"qwen2\", \"qwen3\""));
    EXPECT_THAT(config_refusal(llama().set("architectures", Json::array().push("LlamaForSequenceClassification"))),
                HasSubstr("architectures: found [\"LlamaForSequenceClassification\"]"));
    EXPECT_THAT(config_refusal(Json::object()), HasSubstr("model_type: found none"));
    EXPECT_THAT(config_refusal(Json(3)), HasSubstr("no JSON object"));
    EXPECT_THAT(config_refusal(llama().set("num_attention_heads", 7)), HasSubstr("model.heads: found 7"));
    EXPECT_THAT(config_refusal(llama().set("hidden_size", std::int64_t{1} << 62)), HasSubstr("hidden_size"));
}

TEST(HuggingFaceConfig, WindowsAreRefusedOnlyWhereTheyAreUsed) {
    Json config = llama().set("model_type", "qwen2").set("architectures", Json::array().push("Qwen2ForCausalLM"));
    config.set("sliding_window", 32768).set("use_sliding_window", false).set("max_window_layers", 28);
    const HuggingFaceModel read = read_hugging_face_config(config, "config.json");
    EXPECT_TRUE(read.model.qkv_bias);
    EXPECT_THAT(read.notes, IsEmpty());
    EXPECT_THAT(config_refusal(config.set("use_sliding_window", true)), HasSubstr("use_sliding_window: found true"));
    config.set("use_sliding_window", false)
        .set("layer_types", Json::array().push("full_attention").push("sliding_attention"));
    EXPECT_THAT(config_refusal(config), HasSubstr("layer_types: found [\"full_attention\", \"sliding_attention\"]"));
}

TEST(HuggingFaceConfig, ReadsLlama3ScalingInBothSpellings) {
    const Json scaling =
        parse(R"({"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})");
    Json newer = llama();
    newer.set("rope_theta", Json()).set("rope_parameters", scaling);
    for (const Json& config : {llama().set("rope_scaling", scaling), newer}) {
        const kernels::RotaryFrequencies rotary = read_hugging_face_config(config, "config.json").model.rotary;
        EXPECT_EQ(rotary.scaling, kernels::RotaryScaling::llama3);
        EXPECT_EQ(rotary.base, 5e5);
        EXPECT_EQ(rotary.factor, 32);
        EXPECT_EQ(rotary.original_context, 8192);
    }
    EXPECT_THAT(config_refusal(llama().set("rope_scaling", Json{{"rope_type", "llama3"}, {"factor", 8.0}})),
                AllOf(HasSubstr("rope_scaling.low_freq_factor: it is missing"),
                      HasSubstr("rope_scaling.original_max_position_embeddings: it is missing")));
}

TEST(HuggingFaceConfig, UnknownKeysAreNoted) {
    EXPECT_THAT(read_hugging_face_config(llama().set("brand_new", 1), "config.json").notes,
                ElementsAre(HasSubstr("no effect: brand_new")));
}

TEST(HuggingFaceConfig, BothPartsOfQwenTogetherHaveNoArchitecture) {
    ModelConfig model;
    model.family = Family::llama;
    model.qkv_bias = model.qk_norm = true;
    EXPECT_THAT(user_error([&] { hugging_face_config(model, DType::f32); }), HasSubstr("no architecture"));
    model.qk_norm = false;
    model.window = 8;
    EXPECT_THAT(user_error([&] { hugging_face_config(model, DType::f32); }), HasSubstr("model.window: found 8"));
}

}  // namespace
}  // namespace cleave
