#include "config/run_file.h"
#include "train/job_check.h"

#include <gmock/gmock.h>

#include "config/other_names.h"
#include "support/scratch.h"
#include "train/job_keys.h"

namespace cleave {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

RunFile parse(std::string_view text, const std::vector<std::string>& sets = {}) {
    return parse_run(text, "runs/my.toml", sets);
}

TEST(RunFile, WhatIsLeftOutKeepsItsDefault) {
    const RunFile file = parse("[train]\nsteps = 7\nlr = 1\ndtype = \"bf16\"\n[model]\ntied_embeddings = false\n");
    EXPECT_THAT(file.problems, IsEmpty());
    Job expected;
    expected.train.steps = 7;
    expected.train.lr = 1;
    expected.train.warmup_steps = 0;  // a tenth of the steps
    expected.train.dtype = DType::bf16;
    expected.model.tied_embeddings = false;
    expected.run.folder = "out/my";
    EXPECT_EQ(to_json(file.job), to_json(expected));
}

TEST(RunFile, AShortRunHasAShortWarmUpUnlessTheUserSaysOtherwise) {
    EXPECT_EQ(parse("").job.train.warmup_steps, 100);
    EXPECT_EQ(parse("", {"train.steps=30"}).job.train.warmup_steps, 3);
    EXPECT_EQ(parse("[train]\nsteps = 3").job.train.warmup_steps, 0);
    EXPECT_EQ(parse("[train]\nwarmup_steps = 20", {"train.steps=30"}).job.train.warmup_steps, 20);
    EXPECT_EQ(parse("").job.train.min_lr, 1e-4);
    EXPECT_EQ(parse("", {"train.lr=1e-5"}).job.train.min_lr, 1e-5 / 10);
    EXPECT_EQ(parse("", {"train.lr=1e-5", "train.min_lr=1e-6"}).job.train.min_lr, 1e-6);
    EXPECT_THAT(check(parse("[data]\npath = \"/dev/null\"", {"train.steps=3", "train.lr=1e-6"}).job, 1),
                Not(Contains(HasSubstr("train."))));
}

TEST(RunFile, IsAFileOfAPersonsSizeAndDepth) {
    ScratchFolder scratch;
    const auto refusal = [](const std::filesystem::path& path) { return user_error([&] { read_run_file(path, {}); }); };
    EXPECT_THAT(refusal("/dev/zero"), HasSubstr("it is a pipe or a device"));
    write_all(scratch / "large.toml", "#" + std::string(1 << 20, 'x'));
    EXPECT_THAT(refusal(scratch / "large.toml"), HasSubstr("it has 1048577 bytes; accepted: at most 1048576"));
    std::string deep;
    for (int i = 0; i < 40000; ++i) deep += "a.";
    for (const std::string& text : {"[" + deep + "b]", deep + "b=1", "x = {" + deep + "b=1}"})
        EXPECT_THAT(user_error([&] { parse("\n" + text); }), HasSubstr("runs/my.toml:2: nested deeper than 16"));
    const auto problems = parse("", {"train.steps={" + deep + "b=1}"}).problems;
    ASSERT_THAT(problems, ElementsAre(HasSubstr("...; accepted: an integer from 1")));
    EXPECT_LT(problems.front().size(), 600U);
}

// The system would take "out/a", which may be somebody's file.
TEST(RunFile, APathWithANulIsRefused) {
    for (const std::string key : {"run.folder", "data.path", "data.mask", "data.tokenizer_file", "model.weights"})
        EXPECT_THAT(parse("", {key + "=\"out/a\\u0000b\""}).problems,
                    ElementsAre(AllOf(HasSubstr("--set " + key + ": found"), HasSubstr("holds no NUL"))));
    EXPECT_THAT(parse("", {"sample.prompt=\"a\\u0000b\""}).problems, IsEmpty());
}

TEST(RunFile, ATextThatIsNotUtf8IsRefused) {
    const RunFile file = parse("", {"data.path=a\xFF"
                                    "b.txt"});
    EXPECT_THAT(file.problems, ElementsAre(AllOf(HasSubstr("--set data.path: found"), HasSubstr("a text in UTF-8"))));
}

TEST(RunFile, AKeyHasOneProblem) {
    RunFile file = parse("[data]\npath = 3\n[train]\nbatch = 0");
    ASSERT_EQ(file.problems.size(), 2U);
    file.add({"data.path: no text is named", "train.batch: found 12", "train.lr: found 0", "train.lr: found 0"});
    EXPECT_THAT(file.problems,
                ElementsAre(HasSubstr("data.path: found 3"), HasSubstr("train.batch: found 0"), "train.lr: found 0"));
}

TEST(RunFile, PathsInTheFileAreRelativeToIt) {
    EXPECT_EQ(parse("[data]\npath = \"../text.txt\"").job.data.path, "text.txt");
    EXPECT_EQ(parse("[data]\npath = \"text.txt\"").job.data.path, "runs/text.txt");
    EXPECT_EQ(parse("[data]\npath = \"/a/text.txt\"").job.data.path, "/a/text.txt");
    EXPECT_EQ(parse("[data]\npath = \"x\"", {"data.path=any.txt"}).job.data.path, "any.txt");
    EXPECT_EQ(parse("[run]\nfolder = \"here\"").job.run.folder, "here");
}

TEST(RunFile, SetsComeAfterTheFile) {
    const RunFile file =
        parse("[train]\nsteps = 7\n", {"train.steps=9", "train.lr=3e-4", "train.dtype=f64", "sample.prompt=a = b",
                                       "model.tied_embeddings=false", "train.steps=10", "run.folder=\"q\""});
    EXPECT_THAT(file.problems, IsEmpty());
    EXPECT_EQ(file.job.train.steps, 10);
    EXPECT_EQ(file.job.train.lr, 3e-4);
    EXPECT_EQ(file.job.train.dtype, DType::f64);
    EXPECT_EQ(file.job.sample.prompt, "a = b");
    EXPECT_FALSE(file.job.model.tied_embeddings);
    EXPECT_EQ(file.job.run.folder, "q");
}

TEST(RunFile, TextsNeedNoQuotesInSets) {
    EXPECT_EQ(parse("", {"sample.prompt=123"}).job.sample.prompt, "123");
    EXPECT_EQ(parse("", {"sample.prompt=true"}).job.sample.prompt, "true");
    EXPECT_EQ(parse("", {"sample.prompt=it's"}).job.sample.prompt, "it's");
    EXPECT_EQ(parse("", {"sample.prompt="}).job.sample.prompt, "");
    EXPECT_EQ(parse("", {"sample.prompt=\"a\\nb\""}).job.sample.prompt, "a\nb");
}

TEST(RunFile, ReportsEverythingAtOnceByLine) {
    const RunFile file = parse(
        "lr = 3\n"
        "[model]\n"
        "heads = \"four\"\n"
        "widht = 64\n"
        "[trian]\n"
        "steps = 4\n"
        "[train]\n"
        "steps = [1]\n"
        "batch = -2\n"
        "optimizer = \"adam\"\n",
        {"train.stpes=3", "steps", "train.lr=fast", "=3", "MODEL.LAYERS=3"});
    EXPECT_THAT(file.problems,
                ElementsAre(HasSubstr("runs/my.toml:1: unknown key 'lr' (did you mean 'train.lr'?)"),
                            HasSubstr("runs/my.toml:3: model.heads: found \"four\"; accepted: an integer from 1"),
                            HasSubstr("runs/my.toml:4: unknown key 'model.widht' (did you mean 'model.width'?)"),
                            HasSubstr("runs/my.toml:5: unknown section [trian] (did you mean [train]?)"),
                            HasSubstr("runs/my.toml:8: train.steps: found a list; accepted: an integer"),
                            HasSubstr("runs/my.toml:9: train.batch: found -2; accepted: an integer from 1"),
                            HasSubstr("runs/my.toml:10: train.optimizer: found \"adam\"; accepted: one of adamw, sgd "
                                      "(did you mean \"adamw\"?)"),
                            HasSubstr("--set train.stpes=3: unknown key 'train.stpes' (did you mean 'train.steps'?)"),
                            HasSubstr("--set steps: expected section.key=value"),
                            HasSubstr("--set train.lr=fast: train.lr: found \"fast\"; accepted: a number above 0"),
                            HasSubstr("--set =3: expected section.key=value"),
                            HasSubstr("unknown key 'MODEL.LAYERS' (did you mean 'model.layers'?)")));
    EXPECT_EQ(to_json(file.job).find("train.batch")->dump(), "12");
    EXPECT_THAT(user_error([&] { throw_problems(file.problems); }),
                AllOf(HasSubstr("12 problems"), HasSubstr("\n  - --set steps")));
}

TEST(RunFile, AnUnknownKeyWithoutANearOneGetsTheList) {
    EXPECT_THAT(parse("[sample]\nseverity = 1").problems,
                ElementsAre(HasSubstr("[sample] has: prompt, tokens, temperature, top_k")));
    EXPECT_THAT(parse("[quux]\na = 1").problems, ElementsAre(HasSubstr("accepted: [model], [data]")));
    EXPECT_THAT(parse("train = 3").problems, ElementsAre(HasSubstr("write [train] and its keys below")));
    EXPECT_THAT(parse("[train]\n[train.lr]\nx = 1").problems, ElementsAre(HasSubstr("found a section")));
    EXPECT_THAT(parse("[train]\nsteps = 2020-01-01").problems, ElementsAre(HasSubstr("found a date or time")));
}

// By spelling alone mesh.sp would be mesh.pp.
TEST(RunFile, OtherTrainersNamesAreKnown) {
    const std::pair<const char*, const char*> meant[] = {{"mesh.sp", "sequence_parallel"},
                                                         {"zero.level", "zero.stage"},
                                                         {"fsdp", "zero.stage"},
                                                         {"model.tp", "mesh.tp"},
                                                         {"tensor_parallel", "mesh.tp"},
                                                         {"data_parallel", "mesh.dp"},
                                                         {"pipeline_parallel", "mesh.pp"},
                                                         {"mesh.sequence_parallel", "sequence_parallel"},
                                                         {"context-parallel-size", "mesh.cp"},
                                                         {"train.micro_batch_size", "train.microbatch"},
                                                         {"hidden_size", "model.width"},
                                                         {"Learning_Rate", "train.lr"}};
    for (const auto& [name, key] : meant)
        EXPECT_THAT(parse("", {std::string(name) + "=2"}).problems,
                    ElementsAre(HasSubstr(fmt::format("unknown key '{}' (did you mean '{}'?)", name, key))));
    EXPECT_THAT(parse("[parallel]\ntensor_parallel_size = 2\nsp = true\n").problems,
                ElementsAre(HasSubstr("unknown section [parallel]; parallel.sp is sequence_parallel here, "
                                      "parallel.tensor_parallel_size is mesh.tp here")));
}

TEST(RunFile, EveryOtherNameIsOfAKeyAndIsNoKey) {
    Job job;
    const auto keys = keys_of(job);
    const auto is_key = [&](std::string_view name) {
        return std::any_of(keys.begin(), keys.end(), [&](const Key& key) { return key.name == name; });
    };
    for (const Key& key : keys) EXPECT_EQ(key_known_as(key.name), "") << "it is found by its own name";
    for (const char* name : {"sp", "zero_stage", "n_embd", "max_iters", "output_dir"})
        EXPECT_TRUE(is_key(key_known_as(name))) << name;
}

TEST(RunFile, ANumberThatBeginsOrEndsWithAPointIsToldHowItIsWritten) {
    for (const auto& [text, full] : {std::pair{".1", "0.1"}, {"-.5e1", "-0.5e1"}, {"3.", "3.0"}})
        EXPECT_THAT(parse("", {std::string("train.lr=") + text}).problems,
                    ElementsAre(HasSubstr(fmt::format("found \"{}\"; accepted: a number above 0, at most 1e+16, with "
                                                      "digits on both sides of its point: {}",
                                                      text, full))));
    for (const char* text : {"fast", "1.2.3", ".", "a.5"})
        EXPECT_THAT(parse("", {std::string("train.lr=") + text}).problems,
                    ElementsAre(testing::Not(HasSubstr("both sides"))));
    const auto refusal = [](const std::string& line) { return user_error([&] { parse("[train]\n" + line); }); };
    EXPECT_THAT(refusal("lr = .1  # small\n"), AllOf(HasSubstr("runs/my.toml:2"), HasSubstr("0.1, not .1")));
    EXPECT_THAT(refusal("lr = 5.\n"), HasSubstr("0.1, not .1"));
    EXPECT_THAT(refusal("lr = oops\n"), testing::Not(HasSubstr("not .1")));
}

// What a command's option stands for is named as it was typed, wherever it is spoken of.
TEST(RunFile, OptionsAreNamedAsTheyWereTyped) {
    RunFile file =
        parse_run("", "my.toml", {"zero.stage=1"},
                  {{"--tp", "mesh.tp", "3"}, {"--dp", "mesh.dp", "4"}, {"--recompute", "recompute", "some"}});
    EXPECT_THAT(file.problems, ElementsAre(HasSubstr("--recompute: found \"some\"; accepted: one of none")));
    EXPECT_EQ(file.job.mesh.tp, 3);
    EXPECT_EQ(file.placed("mesh.tp: found 3, or mesh.dp = 4, mesh.tpx"), "--tp: found 3, or --dp = 4, mesh.tpx");
    EXPECT_EQ(file.placed("zero.stage: found 1 (mesh.tp = 3)"), "--set zero.stage: found 1 (--tp = 3)");
    EXPECT_EQ(parse_run("", "my.toml", {"mesh.tp=5"}, {{"--tp", "mesh.tp", "3"}}).job.mesh.tp, 5) << "--set comes last";
}

TEST(RunFile, NamesTheLineOfASyntaxError) {
    EXPECT_THAT(user_error([] { parse("[train]\nsteps = 1\nlr = \n"); }), HasSubstr("runs/my.toml:3: not valid TOML"));
    EXPECT_THAT(user_error([] { parse("[train]\nsteps = 1\nsteps = 2\n"); }), HasSubstr("runs/my.toml:3"));
    EXPECT_THAT(user_error([] { parse("[train]\nx = \"\xFF\"\n"); }), HasSubstr("runs/my.toml:2"));
}

TEST(RunFile, SaysWhereAKeyWasSet) {
    const RunFile file = parse("[train]\nbatch = 5\nsteps = 3", {"train.steps=4"});
    EXPECT_EQ(file.placed("train.batch: found 5"), "runs/my.toml:2: train.batch: found 5");
    EXPECT_EQ(file.placed("train.steps: found 4"), "--set train.steps: found 4");
    EXPECT_EQ(file.placed("train.lr: found 0"), "train.lr: found 0");
}

TEST(RunFile, AMissingFileIsNamedWithTheRemedy) {
    EXPECT_THAT(user_error([] { read_run_file("nowhere.toml", {}); }),
                AllOf(HasSubstr("no run file 'nowhere.toml'"), HasSubstr("cleave init nowhere.toml")));
}

TEST(RunFile, ATokenizersFileIsRelativeToTheRunFilesFolder) {
    EXPECT_EQ(parse("[data]\ntokenizer_file = \"t.json\"").job.data.tokenizer_file, "runs/t.json");
    EXPECT_EQ(parse("", {"data.tokenizer_file=t.json"}).job.data.tokenizer_file, "t.json");
    EXPECT_EQ(parse("[data]\nmask = \"labels\"").job.data.mask, "runs/labels");
}

TEST(EffectiveRunFile, GivesTheSameJobAgain) {
    Job job;
    Value other;
    // No key has its default.
    for (const Key& key : keys_of(job)) {
        const Value value = value_of(key);
        if (const auto* truth = std::get_if<bool>(&value)) other = !*truth;
        if (const auto* whole = std::get_if<std::int64_t>(&value)) other = *whole + 3;
        if (const auto* real = std::get_if<double>(&value)) other = *real / 3 + 0.01;
        if (std::holds_alternative<std::string>(value)) other = std::string("a \"quoted\"\n\ttext \\ \x01 \xC3\xA9");
        if (const auto* word = std::get_if<WordField>(&key.field))
            other = std::string(word->words[(*word->value + 1) % 2]);
        ASSERT_EQ(assign(key, other), std::nullopt) << key.name;
    }
    job.data.path = "/data/any \"text\".txt";
    job.data.tokenizer_file = "/data/any \"tokenizer\".json";
    job.weights = "/models/any";
    job.data.mask = "/data/any \"mask\"";
    job.pipeline.schedule_file = "/any \"schedule\"";
    job.run.folder = "/out/any";
    const RunFile back = parse(effective_run_file(job));
    EXPECT_THAT(back.problems, IsEmpty());
    EXPECT_EQ(to_json(back.job), to_json(job));
}

TEST(EffectiveRunFile, HoldsWhereverItIsReadFrom) {
    Job job;
    job.data.path = "text.txt";
    job.run.folder = "out/run";
    const RunFile back = parse_run(effective_run_file(job), "/elsewhere/config.toml", {});
    EXPECT_EQ(back.job.run.folder, std::filesystem::absolute("out/run").string());
    EXPECT_EQ(back.job.data.path, std::filesystem::absolute("text.txt").string());
}

TEST(CommentedRunFile, SetsNothingButTheText) {
    const RunFile file = parse(commented_run_file("/data/text.txt"));
    ASSERT_EQ(file.places.size(), 1U);
    EXPECT_EQ(file.places.begin()->first, "data.path");
}

// Behind their #, which is taken away.
TEST(CommentedRunFile, IsValidAndHoldsTheDefaults) {
    const std::string text = commented_run_file("/data/text.txt");
    std::string all;
    for (std::size_t at = 0; at < text.size(); ++at)
        if (text[at] != '#' || (at > 0 && text[at - 1] != '\n') || text[at + 1] == ' ') all += text[at];
    for (const std::string& each : {text, all}) {
        const RunFile file = parse(each);
        EXPECT_THAT(file.problems, IsEmpty());
        Job expected;
        expected.data.path = "/data/text.txt";
        expected.run.folder = "out/my";
        EXPECT_EQ(to_json(file.job), to_json(expected));
    }
    Job job;
    for (const Key& key : keys_of(job)) {
        EXPECT_THAT(all, HasSubstr("\n" + std::string(key.key()) + " = "));
        EXPECT_NE(parse(all).places.find(key.name), parse(all).places.end()) << key.name;
    }
}

}  // namespace
}  // namespace cleave
