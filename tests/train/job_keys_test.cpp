#include "train/job_keys.h"

#include <gmock/gmock.h>

#include <set>

#include "support/scratch.h"

namespace cleave {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Key& find(const std::vector<Key>& keys, std::string_view name) {
    for (const Key& key : keys)
        if (key.name == name) return key;
    throw std::out_of_range(std::string(name));
}

TEST(JobKeys, NameEveryFieldOnceAndExplainIt) {
    Job job;
    std::set<std::string_view> names;
    std::set<const void*> fields;
    for (const Key& key : keys_of(job)) {
        EXPECT_TRUE(names.insert(key.name).second) << key.name;
        EXPECT_GT(key.meaning.size(), 3u) << key.name;
        EXPECT_FALSE(section_title(key.section()).empty());
        EXPECT_EQ(range_problem(key), std::nullopt) << key.name << ": its default is out of range";
        const void* field = std::visit(
            [](const auto& pointer) -> const void* {
                if constexpr (std::is_same_v<std::decay_t<decltype(pointer)>, WordField>)
                    return pointer.value;
                else
                    return pointer;
            },
            key.field);
        EXPECT_TRUE(fields.insert(field).second) << key.name << " is another key's field";
    }
    // The names that other people's scripts rely on.
    for (const char* name : {"data.path", "mesh.pp", "mesh.dp", "mesh.cp", "mesh.tp", "train.steps", "train.batch",
                             "train.microbatch", "train.seed", "train.dtype", "train.lr"})
        EXPECT_TRUE(names.contains(name)) << name;
}

TEST(JobKeys, TheNucleusIsAboveZeroAndAtMostOne) {
    Job job;
    const auto keys = keys_of(job);
    const Key& top_p = find(keys, "sample.top_p");
    for (double wrong : {0.0, -0.1, 1.5})
        EXPECT_THAT(assign(top_p, wrong).value_or(""), HasSubstr("above 0, at most 1")) << wrong;
    EXPECT_EQ(assign(top_p, 0.9), std::nullopt);
    EXPECT_EQ(job.sample.top_p, 0.9);
}

TEST(JobKeys, TheListIsComplete) {
    // Every byte of a Job that is no padding belongs to a key: set all keys to other values, and no field keeps its
    // default.
    Job job;
    for (const Key& key : keys_of(job)) {
        const Value value = value_of(key);
        Value other = value;
        if (const auto* truth = std::get_if<bool>(&value)) other = !*truth;
        if (const auto* whole = std::get_if<std::int64_t>(&value)) other = *whole + 1;
        if (const auto* real = std::get_if<double>(&value)) other = *real * 0.5 + 0.1;
        if (std::holds_alternative<std::string>(value)) other = std::string("other");
        if (const auto* word = std::get_if<WordField>(&key.field))
            other = std::string(word->words[(*word->value + 1) % 2]);
        EXPECT_EQ(assign(key, other), std::nullopt) << key.name;
        EXPECT_NE(value_of(key), value) << key.name;
    }
    const Job defaults;
    EXPECT_NE(job.model.family, defaults.model.family);
    EXPECT_NE(job.data.tokenizer, defaults.data.tokenizer);
    EXPECT_NE(job.train.dtype, defaults.train.dtype);
    EXPECT_NE(job.train.optimizer, defaults.train.optimizer);
    EXPECT_NE(job.comm.timeout_s, defaults.comm.timeout_s);
    EXPECT_NE(job.train.bucket_bytes, defaults.train.bucket_bytes);
    EXPECT_NE(job.sample.top_k, defaults.sample.top_k);
    EXPECT_NE(job.run.folder, defaults.run.folder);
}

TEST(JobKeys, WordsMeanTheirEnum) {
    Job job;
    const auto keys = keys_of(job);
    const auto set = [&](std::string_view name, const char* word) {
        EXPECT_EQ(assign(find(keys, name), std::string(word)), std::nullopt);
    };
    for (DType dtype : {DType::f64, DType::f32, DType::bf16}) {
        set("train.dtype", std::string(name_of(dtype)).c_str());
        EXPECT_EQ(job.train.dtype, dtype);
    }
    set("model.family", "llama");
    EXPECT_EQ(job.model.family, Family::llama);
    set("model.family", "gpt2");
    EXPECT_EQ(job.model.family, Family::gpt2);
    set("data.tokenizer", "bytes");
    EXPECT_EQ(job.data.tokenizer, TokenizerKind::bytes);
    set("data.tokenizer", "char");
    EXPECT_EQ(job.data.tokenizer, TokenizerKind::characters);
    set("train.optimizer", "sgd");
    EXPECT_EQ(job.train.optimizer, OptimizerKind::sgd);
    set("train.optimizer", "adamw");
    EXPECT_EQ(job.train.optimizer, OptimizerKind::adamw);
}

TEST(JobKeys, EveryNumberNamesBothItsBounds) {
    Job job;
    for (const Key& key : keys_of(job)) {
        if (type_name(key) != "integer" && type_name(key) != "number") continue;
        EXPECT_GT(key.range.least, -kNoLimit) << key.name;
        EXPECT_LT(key.range.most, kNoLimit) << key.name;
        const auto problem = assign(key, 1e300);
        EXPECT_THAT(problem.value_or(""), testing::ContainsRegex(" to [0-9]|at most [0-9]|below [0-9]")) << key.name;
    }
}

TEST(JobKeys, ARefusedValueChangesNothing) {
    Job job;
    const auto keys = keys_of(job);
    const auto refused = [&](std::string_view name, const Value& value) {
        return assign(find(keys, name), value).value_or("");
    };
    EXPECT_EQ(refused("train.batch", std::int64_t{0}), "found 0; accepted: an integer from 1 to 16777216");
    EXPECT_EQ(refused("train.batch", 2.5), "found 2.5; accepted: an integer from 1 to 16777216");
    EXPECT_EQ(refused("train.batch", std::string("many")), "found \"many\"; accepted: an integer from 1 to 16777216");
    EXPECT_EQ(refused("train.beta1", 1.0), "found 1.0; accepted: a number from 0, below 1");
    EXPECT_EQ(refused("train.lr", 0.0), "found 0.0; accepted: a number above 0, at most 1e+16");
    EXPECT_EQ(refused("train.lr", std::nan("")), "found nan; accepted: a number above 0, at most 1e+16");
    EXPECT_EQ(refused("train.lr", 1e17), "found 1e+17; accepted: a number above 0, at most 1e+16");
    EXPECT_EQ(refused("comm.timeout_s", 1e15), "found 1000000000000000.0; accepted: a number from 0.001 to 1000000");
    EXPECT_EQ(refused("train.dtype", std::string("f16")),
              "found \"f16\"; accepted: one of f64, f32, bf16 (did you mean \"bf16\"?)");
    EXPECT_EQ(refused("model.tied_embeddings", std::int64_t{1}), "found 1; accepted: true or false");
    EXPECT_EQ(refused("mesh.dp", std::int64_t{1} << 40), "found 1099511627776; accepted: an integer from 0 to 1048576");
    EXPECT_EQ(refused("data.path", std::int64_t{1}), "found 1; accepted: a text in quotes");
    EXPECT_EQ(to_json(job), to_json(Job()));
    EXPECT_EQ(assign(find(keys, "train.lr"), std::int64_t{1}), std::nullopt);  // a whole number is a number
    EXPECT_EQ(job.train.lr, 1.0);
}

TEST(JobKeys, AnIntegerMayBeWrittenAsAWholeReal) {
    Job job;
    const auto keys = keys_of(job);
    EXPECT_EQ(assign(find(keys, "train.steps"), 1e3), std::nullopt);
    EXPECT_EQ(job.train.steps, 1000);
    for (const double wrong : {1000.5, 1e300, -1e300, std::nan("")})
        EXPECT_THAT(assign(find(keys, "train.steps"), wrong).value_or(""), HasSubstr("an integer from 1")) << wrong;
    // Both ends of a range, as messages write them, are accepted.
    for (const Key& key : keys) {
        if (type_name(key) != "integer") continue;
        EXPECT_EQ(assign(key, key.range.most), std::nullopt) << key.name;
        EXPECT_EQ(assign(key, key.range.least), std::nullopt) << key.name;
    }
}

TEST(JobKeys, AMessageIsForReading) {
    Job job;
    const auto keys = keys_of(job);
    const auto problem = assign(find(keys, "train.steps"), std::string(80000, 'a')).value_or("");
    EXPECT_LT(problem.size(), 300U);
    EXPECT_THAT(problem, HasSubstr("...; accepted: an integer"));
}

TEST(JobKeys, AJobSurvivesJson) {
    Job job;
    job.data.path = "a \"b\"\n.txt";
    job.train.lr = 0.1 + 0.2;
    job.train.dtype = DType::bf16;
    job.mesh.dp = 3;
    const Json json = Json::parse(to_json(job).dump(), "test");
    const Job back = job_from_json(json, "test");
    EXPECT_EQ(to_json(back), to_json(job));
    EXPECT_EQ(back.train.lr, 0.1 + 0.2);
    EXPECT_EQ(back.data.path, job.data.path);
}

TEST(JobKeys, AKeyThatACheckpointDoesNotKnowYetHasItsDefault) {
    Job job;
    job.train.lr = 0.5;
    Json json = to_json(job);
    Json older = Json::object();
    for (const auto& [key, value] : *json.members())
        if (key != "recompute" && key != "train.ramp_batch") older.set(key, value);
    EXPECT_EQ(to_json(job_from_json(older, "a.ckpt")), json);
}

TEST(JobKeys, ADamagedJsonIsRefused) {
    Json json = to_json(Job());
    json.set("train.batch", "x");
    EXPECT_THAT(user_error([&] { job_from_json(json, "a.ckpt"); }), HasSubstr("train.batch: found \"x\""));
    json.set("train.batch", Json());
    EXPECT_THAT(user_error([&] { job_from_json(json, "a.ckpt"); }), HasSubstr("train.batch"));
}

TEST(ResumeDifferences, TellWhatMayChange) {
    Job now;
    now.model.layers = 5;
    now.train.lr = 2e-3;
    now.train.checkpoint_every = 7;
    now.mesh.tp = 2;  // the same sums in another order: resume_bits.h
    now.zero.stage = 3;
    now.train.microbatch = 3;
    const auto differences = resume_differences(Job(), now);
    EXPECT_THAT(
        differences.refused,
        ElementsAre("model.layers: found 5, but the checkpoint to resume from has 4; accepted: 4, or --overwrite "
                    "instead of --resume, which begins anew"));
    EXPECT_THAT(differences.announced, ElementsAre("train.lr: 0.001 in the checkpoint, 0.002 now"));
}

// A run may be resumed with what its zeros stood for.
TEST(JobKeys, AResumedRunMaySpellOutWhatZeroStandsFor) {
    Job now;
    now.model.kv_heads = now.model.heads;
    now.model.head_width = now.model.width / now.model.heads;
    now.model.mlp_width = 4 * now.model.width;
    now.model.positions = now.model.context;
    EXPECT_THAT(resume_differences(Job(), now).refused, ElementsAre());
    EXPECT_THAT(resume_differences(now, Job()).refused, ElementsAre());
    ++now.model.positions;
    EXPECT_THAT(resume_differences(Job(), now).refused, ElementsAre(HasSubstr("model.positions: found 65")));
}

}  // namespace
}  // namespace cleave
