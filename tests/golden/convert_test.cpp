// Folders that Transformers has written, through a run folder and back; and folders that are wrong.
#include "train/convert.h"

#include <gmock/gmock.h>

#include <memory>

#include "base/utf8.h"
#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "parallel/data_parallel.h"
#include "support/scratch.h"
#include "train/model_comparison.h"

namespace cleave {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kFamilies[] = {"gpt2", "llama2", "llama3", "smollm2", "qwen2", "qwen3"};

std::filesystem::path golden(const std::string& family) {
    return std::filesystem::path(CLEAVE_SOURCE) / "tests" / "golden" / "models" / family;
}

class ConvertTest : public testing::Test {
  protected:
    int convert(const std::filesystem::path& from, const std::string& to, DType dtype = DType::f32,
                bool overwrite = false, std::int64_t shard_bytes = 0) const {
        ConvertOptions options;
        options.shard_bytes = shard_bytes;
        options.overwrite = overwrite;
        options.source = from.string();
        options.destination = (folder_ / to).string();
        options.dtype = dtype;
        options.json = true;
        options.run_file = [](const Job&) { return std::string("# a run\n"); };
        // Whether it returns or throws, what it prints is no part of the test's own report.
        testing::internal::CaptureStdout();
        const std::shared_ptr<void> end(nullptr, [](void*) { testing::internal::GetCapturedStdout(); });
        return run_conversion(options);
    }
    ScratchFolder folder_;
};

std::string bytes_of(const SafetensorsTensor& tensor) {
    return {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()};
}

TEST_F(ConvertTest, ThereAndBackIsTheSameModel) {
    for (const std::string family : kFamilies) {
        ASSERT_EQ(convert(golden(family), family + ".run"), 0);
        ASSERT_EQ(convert(folder_ / (family + ".run"), family), 0);
        const HuggingFaceFolder before(golden(family)), after(folder_ / family);
        EXPECT_EQ(hugging_face_config(before.config().model, DType::f32),
                  hugging_face_config(after.config().model, DType::f32));
        const SafetensorsFolder original(golden(family)), exported(folder_ / family);
        ASSERT_EQ(original.tensors().size(), exported.tensors().size()) << "tied weights stand once";
        for (const auto& [name, tensor] : original.tensors()) {
            ASSERT_NE(exported.find(name), nullptr) << name;
            EXPECT_EQ(exported.find(name)->shape, tensor->shape) << name;
            EXPECT_EQ(bytes_of(*exported.find(name)), bytes_of(*tensor)) << name;
        }
    }
}

TEST_F(ConvertTest, StoredAsBf16EveryValueIsRoundedOnce) {
    ASSERT_EQ(convert(golden("qwen2"), "run"), 0);
    ASSERT_EQ(convert(folder_ / "run", "half", DType::bf16), 0);
    const SafetensorsFolder original(golden("qwen2")), exported(folder_ / "half");
    for (const auto& [name, tensor] : original.tensors()) {
        std::vector<float> values(static_cast<std::size_t>(tensor->shape.elements())), read(values.size());
        convert_values(tensor->type, tensor->bytes, DType::f32, values.data());
        EXPECT_EQ(exported.find(name)->type.name, "BF16");
        convert_values(exported.find(name)->type, exported.find(name)->bytes, DType::f32, read.data());
        for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(read[i], static_cast<float>(bf16(values[i])));
    }
    // The masters of a bf16 file are its values, exactly: they come back as the same bytes.
    ASSERT_EQ(convert(folder_ / "half", "half.run"), 0);
    ASSERT_EQ(convert(folder_ / "half.run", "again", DType::bf16), 0);
    EXPECT_EQ(read_all(folder_ / "half" / "model.safetensors"), read_all(folder_ / "again" / "model.safetensors"));
}

std::vector<std::string> weights_in(const std::filesystem::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
        if (entry.path().filename().string().starts_with("model")) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

TEST_F(ConvertTest, ShardsAreTheSameModelAndTakeThePlaceOfAnother) {
    ASSERT_EQ(convert(golden("smollm2"), "run"), 0);
    ASSERT_EQ(convert(folder_ / "run", "out", DType::f32, false, 8'000), 0);
    const auto out = folder_ / "out";
    std::vector<std::string> names = weights_in(out);
    ASSERT_GT(names.size(), 3U);
    ASSERT_EQ(names.back(), "model.safetensors.index.json");
    names.pop_back();
    const std::string count = fmt::format("{:05}", names.size());
    const auto largest = [](const SafetensorsFile& file) {
        std::size_t bytes = 0;
        for (const SafetensorsTensor& tensor : file.tensors()) bytes = std::max(bytes, tensor.bytes.size());
        return bytes;
    };
    std::size_t total = 0;
    for (std::size_t i = 0; i < names.size(); ++i) {
        EXPECT_EQ(names[i], fmt::format("model-{:05}-of-{}.safetensors", i + 1, count));
        const SafetensorsFile file(out / names[i]);
        std::size_t bytes = 0;
        for (const SafetensorsTensor& tensor : file.tensors()) bytes += tensor.bytes.size();
        EXPECT_LE(bytes, std::max<std::size_t>(8'000, largest(file))) << names[i];
        total += bytes;
    }
    const Json index = Json::parse(read_all(out / "model.safetensors.index.json"), "index");
    EXPECT_EQ(*index.find("metadata")->find("total_size")->integer(), static_cast<std::int64_t>(total));
    const auto expect_original = [&] {
        const SafetensorsFolder original(golden("smollm2")), exported(out);
        ASSERT_EQ(original.tensors().size(), exported.tensors().size());
        for (const auto& [name, tensor] : original.tensors()) {
            ASSERT_NE(exported.find(name), nullptr) << name;
            EXPECT_EQ(bytes_of(*exported.find(name)), bytes_of(*tensor)) << name;
        }
    };
    expect_original();
    ASSERT_EQ(convert(out, "again"), 0);
    // One file in place of shards, fewer shards in place of one file and of more.
    ASSERT_EQ(convert(folder_ / "run", "out", DType::f32, true), 0);
    EXPECT_THAT(weights_in(out), ElementsAre("model.safetensors"));
    expect_original();
    ASSERT_EQ(convert(folder_ / "run", "out", DType::f32, true, 8'000), 0);
    ASSERT_EQ(convert(folder_ / "run", "out", DType::f32, true, static_cast<std::int64_t>(total * 2 / 3)), 0);
    EXPECT_THAT(weights_in(out), ElementsAre("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                                             "model.safetensors.index.json"));
    expect_original();
    EXPECT_THAT(user_error([&] { convert(golden("smollm2"), "run2", DType::f32, false, 1000); }),
                HasSubstr("--max-shard-size"));
}

TEST_F(ConvertTest, AChangedFileIsSeen) {
    ASSERT_EQ(convert(golden("llama3"), "run"), 0);
    ASSERT_EQ(convert(folder_ / "run", "out"), 0);
    const auto compare = [&] {
        const WeightsSource source(folder_ / "run");
        const Mesh mesh({{"pp", 1}, {"dp", 1}, {"cp", 1}, {"tp", 1}});
        Comparison result;
        comm::run_ranks({}, [&](comm::Communicator& world) {
            CpuEngine engine(mesh, world, 1);
            Transformer model(engine, source.model(), data_parallel_layouts(mesh), DType::f32);
            source.load(model);
            result = compare_with(WeightsSource(folder_ / "out"), engine, model, DType::f32);
        });
        return result;
    };
    EXPECT_TRUE(compare().equal());
    const auto file = folder_ / "out" / "model.safetensors";
    std::string bytes = read_all(file);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);  // the last tensor's last element: its sign or exponent
    write_all(file, bytes);
    const Comparison changed = compare();
    EXPECT_THAT(changed.different, ElementsAre("lm_head.weight"));
    EXPECT_GT(changed.logit_difference, 0);
    EXPECT_FALSE(changed.equal());
}

TEST_F(ConvertTest, ATokenizerGoesAlong) {
    std::filesystem::copy(golden("qwen3"), folder_ / "model");
    for (const char* name : {"tokenizer.json", "generation_config.json"}) write_all(folder_ / "model" / name, name);
    ASSERT_EQ(convert(folder_ / "model", "run"), 0);
    ASSERT_EQ(convert(folder_ / "run", "out"), 0);
    for (const char* name : {"tokenizer.json", "generation_config.json"})
        EXPECT_EQ(read_all(folder_ / "out" / name), name);
}

TEST_F(ConvertTest, FoldersThatExistAreNotTouched) {
    ASSERT_EQ(convert(golden("qwen3"), "run"), 0);
    EXPECT_THAT(user_error([&] { convert(golden("qwen3"), "run"); }), HasSubstr("--overwrite"));
    ASSERT_EQ(convert(folder_ / "run", "out"), 0);
    EXPECT_THAT(user_error([&] { convert(folder_ / "run", "out"); }), HasSubstr("--overwrite"));
    EXPECT_THAT(user_error([&] { convert(folder_ / "nowhere", "out2"); }), HasSubstr("nowhere"));
    EXPECT_THAT(user_error([&] { convert(golden("."), "out2"); }), HasSubstr("neither a checkpoint"));
    ConvertOptions unnamed;
    unnamed.source = golden("qwen3").string();
    EXPECT_THAT(user_error([&] { run_conversion(unnamed); }), HasSubstr("DESTINATION: found ''"));
    EXPECT_THAT(user_error([&] { convert(golden("qwen3"), "out2", DType::bf16); }), HasSubstr("--dtype"));
}

TEST_F(ConvertTest, OnlyAModelOfTheSameKindIsWrittenOver) {
    const auto over = [&](const std::filesystem::path& from, const std::string& to) {
        return user_error([&] { convert(from, to, DType::f32, true); });
    };
    ASSERT_EQ(convert(golden("qwen3"), "run"), 0);
    ASSERT_EQ(convert(folder_ / "run", "out"), 0);
    const std::string weights = read_all(folder_ / "out" / "model.safetensors");
    const auto checkpoint = folder_ / "run" / "checkpoints" / "step_000000000.ckpt";

    std::filesystem::create_directory_symlink(folder_ / "run", folder_ / "link");
    for (const auto& [from, to] :
         {std::pair(folder_ / "run", "run"), {folder_ / "run", "link"}, {checkpoint, "run"}, {folder_ / "out", "out"}})
        EXPECT_THAT(over(from, to), AllOf(HasSubstr("DESTINATION"), HasSubstr("SOURCE itself"))) << from;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "run" / "config.json"));

    ASSERT_EQ(convert(golden("qwen2"), "other.run"), 0);
    ASSERT_EQ(convert(folder_ / "other.run", "other"), 0);
    EXPECT_THAT(over(folder_ / "run", "other.run"), AllOf(HasSubstr("DESTINATION"), HasSubstr("holds a run")));
    EXPECT_THAT(over(folder_ / "out", "other"), AllOf(HasSubstr("DESTINATION"), HasSubstr("Hugging Face model")));

    std::filesystem::create_directory(folder_ / "mine");
    for (const char* name : {"config.json", "config.toml"}) write_all(folder_ / "mine" / name, "{}");
    for (const char* from : {"run", "out"}) {
        EXPECT_THAT(over(folder_ / from, "mine"), AllOf(HasSubstr("DESTINATION"), HasSubstr("files of another kind")));
        EXPECT_THAT(over(folder_ / from, "mine/config.json"), AllOf(HasSubstr("DESTINATION"), HasSubstr("is a file")));
    }

    EXPECT_EQ(over(folder_ / "run", "other"), "");
    EXPECT_EQ(read_all(folder_ / "other" / "model.safetensors"), weights);
    EXPECT_EQ(over(folder_ / "out", "other.run"), "");
}

// A run folder as training on characters leaves it, from a model of 47 tokens.
TEST_F(ConvertTest, CharactersAndBytesGoAlongAndBack) {
    std::filesystem::copy(golden("llama3"), folder_ / "model");
    std::string text;
    for (char32_t c = 0; c < 47; ++c) append_utf8(text, U'a' + 7 * c);
    const Tokenizer letters = Tokenizer::characters(text, "text");
    write_all(folder_ / "model" / kOwnTokenizerName, letters.to_json().dump());
    ASSERT_EQ(convert(folder_ / "model", "run"), 0);
    EXPECT_EQ(WeightsSource(folder_ / "run").tokenizer(), letters);
    EXPECT_EQ(WeightsSource(folder_ / "run").job().data.tokenizer, TokenizerKind::characters);
    ASSERT_EQ(convert(folder_ / "run", "out"), 0);
    EXPECT_EQ(WeightsSource(folder_ / "out").tokenizer(), letters);
    ASSERT_EQ(convert(folder_ / "out", "again"), 0);
    EXPECT_EQ(WeightsSource(folder_ / "again").tokenizer(), letters);

    // The tokenizer of an older model in the same folder does not stay.
    ASSERT_EQ(convert(golden("llama3"), "bare"), 0);
    for (const char* name : {"tokenizer.json", "merges.txt"}) write_all(folder_ / "out" / name, "old");
    ASSERT_EQ(convert(folder_ / "bare", "out", DType::f32, true), 0);
    for (const char* name : {"tokenizer.json", "merges.txt", "cleave_tokenizer.json"})
        EXPECT_FALSE(std::filesystem::exists(folder_ / "out" / name)) << name;
    EXPECT_THAT(user_error([&] { WeightsSource(folder_ / "out").tokenizer(); }),
                AllOf(HasSubstr("no tokenizer.json"), HasSubstr("accepted"), HasSubstr("cleave_tokenizer.json")));
}

// Copies of a folder whose weights are written anew, each tensor through `change`.
class OtherWeightsTest : public ConvertTest {
  protected:
    using Change = std::function<std::string(const std::string& name)>;  // the new name; empty: left out
    std::string refusal(const std::string& family, const Change& change, const Json& settings = Json::object()) const {
        const SafetensorsFolder original(golden(family));
        const std::vector<float> zeros(20 * 20);
        SafetensorsWriter writer;
        for (const auto& [name, tensor] : original.tensors())
            if (const std::string to = change(name); !to.empty())
                writer.add(to, tensor->shape, DType::f32, tensor->bytes.data(), DType::f32);
        if (family == "gpt2") {
            writer.add("h.0.attn.bias", {1, 1, 20, 20}, DType::f32, zeros.data(), DType::f32);
            writer.add("h.0.attn.masked_bias", {}, DType::f32, zeros.data(), DType::f32);
        }
        std::filesystem::create_directories(folder_ / "other");
        writer.write(folder_ / "other" / "model.safetensors");
        Json config = Json::parse(read_all(golden(family) / "config.json"), "config.json");
        for (const auto& [key, value] : *settings.members()) config.set(key, value);
        write_all(folder_ / "other" / "config.json", config.dump());
        return user_error([&] { HuggingFaceFolder{folder_ / "other"}; });
    }
};

TEST_F(OtherWeightsTest, NamesOfTheModelWithoutItsHeadAreAccepted) {
    const auto strip = [](const std::string& name) { return name.substr(name.find('.') + 1); };
    EXPECT_THAT(refusal("gpt2", strip), IsEmpty());
    ASSERT_EQ(convert(folder_ / "other", "run"), 0);
    ASSERT_EQ(convert(folder_ / "run", "out"), 0);
    const SafetensorsFolder original(golden("gpt2")), exported(folder_ / "out");
    for (const auto& [name, tensor] : original.tensors()) EXPECT_EQ(bytes_of(*exported.find(name)), bytes_of(*tensor));
    EXPECT_THAT(refusal("qwen2", strip), IsEmpty());
}

TEST_F(OtherWeightsTest, WhatIsMissingOrTooMuchOrOfAnotherShapeIsNamed) {
    EXPECT_THAT(refusal("llama2",
                        [](const std::string& name) {
                            if (name == "model.norm.weight") return std::string();
                            return name == "lm_head.weight" ? std::string("lm_head.bias") : name;
                        }),
                AllOf(HasSubstr("the weights lack 'model.norm.weight' [24]"),
                      HasSubstr("the weights lack 'lm_head.weight' [47, 24]"), HasSubstr("'lm_head.bias' [47, 24]"),
                      HasSubstr("3 problems")));
    const auto same = [](const std::string& name) { return name; };
    EXPECT_THAT(refusal("llama2", same, Json{{"num_key_value_heads", 2}}),
                AllOf(HasSubstr("'model.layers.0.self_attn.k_proj.weight' is [24, 24]"), HasSubstr("needs [12, 24]")));
    EXPECT_THAT(refusal("llama2", same, Json{{"vocab_size", 1 << 20}, {"num_hidden_layers", 40}}),
                AllOf(HasSubstr("13 problems"), HasSubstr(" more")));
}

// Older files hold the head beside the table that it is tied to.
TEST_F(OtherWeightsTest, TiedWeightsMayStandTwiceAndAreWrittenOnce) {
    const SafetensorsFolder original(golden("smollm2"));
    SafetensorsWriter writer;
    for (const auto& [name, tensor] : original.tensors())
        writer.add(name, tensor->shape, DType::f32, tensor->bytes.data(), DType::f32);
    const SafetensorsTensor& table = *original.find("model.embed_tokens.weight");
    writer.add("lm_head.weight", table.shape, DType::f32, table.bytes.data(), DType::f32);
    std::filesystem::create_directories(folder_ / "other");
    writer.write(folder_ / "other" / "model.safetensors");
    std::filesystem::copy(golden("smollm2") / "config.json", folder_ / "other");
    ASSERT_EQ(convert(folder_ / "other", "run"), 0);
    ASSERT_EQ(convert(folder_ / "run", "out"), 0);
    EXPECT_EQ(SafetensorsFolder(folder_ / "out").find("lm_head.weight"), nullptr);
    EXPECT_THAT(read_all(folder_ / "out" / "model.safetensors"),
                HasSubstr(R"("lm_head.weight": "model.embed_tokens.weight")"));
}

TEST_F(OtherWeightsTest, TiedWeightsThatDifferAreRefused) {
    const auto same = [](const std::string& name) { return name; };
    EXPECT_THAT(refusal("llama2", same, Json{{"tie_word_embeddings", true}}),
                HasSubstr("'lm_head.weight' differs from 'model.embed_tokens.weight'"));
}

TEST(AdoptModel, TakesTheModelButWhatIsSet) {
    const auto nothing = [](std::string_view) { return false; };
    Job job;
    job.weights = golden("llama3").string();
    EXPECT_THAT(adopt_model(job, nothing), IsEmpty());
    EXPECT_EQ(job.model.family, Family::llama);
    EXPECT_EQ(job.model.vocabulary, 47);
    EXPECT_EQ(job.model.rotary.factor, 8);
    EXPECT_EQ(job.model.context, 512);
    EXPECT_EQ(job.model.positions, 512);

    Job other;
    other.weights = job.weights;
    other.model.context = 16;
    other.model.layers = 3;
    const auto set = [](std::string_view key) { return key == "model.context" || key == "model.layers"; };
    EXPECT_THAT(adopt_model(other, set),
                ElementsAre(AllOf(HasSubstr("model.layers: found 3"), HasSubstr("accepted: 2"))));
    EXPECT_EQ(other.model.context, 16);
    EXPECT_EQ(other.model.positions, 512);

    Job random;
    EXPECT_THAT(adopt_model(random, nothing), IsEmpty());
    EXPECT_EQ(random.model.layers, Job().model.layers);
    random.weights = "/nowhere";
    EXPECT_THAT(
        adopt_model(random, nothing),
        ElementsAre(AllOf(HasSubstr("model.weights: there is no folder or checkpoint '/nowhere'; accepted: "))));
}

TEST_F(ConvertTest, AZeroThatStandsForAnotherKeyCountsAsNotSet) {
    const auto set = [](std::string_view key) {
        return key == "model.kv_heads" || key == "model.head_width" || key == "model.mlp_width" ||
               key == "model.positions" || key == "model.vocabulary";
    };
    for (const std::string family : kFamilies) {
        Job zeros, adopted;
        zeros.weights = adopted.weights = golden(family).string();
        EXPECT_THAT(adopt_model(zeros, set), IsEmpty()) << family;
        EXPECT_THAT(adopt_model(adopted, [](std::string_view) { return false; }), IsEmpty());
        EXPECT_EQ(zeros.model.positions, adopted.model.positions);
        EXPECT_EQ(zeros.model.vocabulary, adopted.model.vocabulary);
        // So does the number that a 0 of theirs stands for.
        Job spelt = adopted;
        spelt.model.kv_heads = adopted.model.key_value_heads();
        spelt.model.head_width = adopted.model.head_channels();
        spelt.model.mlp_width = adopted.model.hidden_mlp();
        EXPECT_THAT(adopt_model(spelt, set), IsEmpty()) << family;
        ++spelt.model.mlp_width;
        EXPECT_THAT(adopt_model(spelt, set), ElementsAre(HasSubstr("model.mlp_width"))) << family;
    }
}

TEST_F(ConvertTest, WeightsThatAreNoNumbersAreRefusedByName) {
    std::filesystem::copy(golden("gpt2"), folder_ / "given");
    const auto file = folder_ / "given" / "model.safetensors";
    std::string bytes = read_all(file);
    bytes.replace(bytes.size() - 4, 4, 4, '\xFF');  // the last value of the last tensor
    write_all(file, bytes);
    EXPECT_THAT(
        user_error([&] { convert(folder_ / "given", "run"); }),
        AllOf(HasSubstr((folder_ / "given").string()), HasSubstr("holds a value that is infinite or no number")));
}

}  // namespace
}  // namespace cleave
