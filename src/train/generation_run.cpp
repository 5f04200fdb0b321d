#include "train/generation_run.h"

#include "base/error.h"
#include "base/output.h"
#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "parallel/data_parallel.h"
#include "train/generate.h"
#include "train/tokenizer.h"
#include "train/weights_source.h"

namespace cleave {

namespace {

Job::Sample settings_of(const GenerateOptions& options, Job::Sample settings) {
    settings.prompt = options.prompt.value_or(settings.prompt);
    settings.tokens = options.tokens.value_or(settings.tokens);
    settings.temperature = options.temperature.value_or(settings.temperature);
    settings.top_k = options.top_k.value_or(settings.top_k);
    return settings;
}

}  // namespace

int run_generation(const GenerateOptions& options) {
    const WeightsSource source(options.folder);
    const Job& job = source.job();
    const Tokenizer tokenizer = source.tokenizer();
    const Job::Sample settings = settings_of(options, job.sample);
    const std::vector<Token> prompt = prompt_tokens(tokenizer, settings.prompt, "the prompt");

    const Mesh mesh({{"pp", 1}, {"dp", 1}, {"cp", 1}, {"tp", 1}});
    comm::LaunchOptions launch;
    launch.ranks = 1;
    comm::run_ranks(launch, [&](comm::Communicator& world) {
        CpuEngine engine(mesh, world, team_size(1));
        Transformer model(engine, job.model, data_parallel_layouts(mesh), job.train.dtype);
        source.load(engine, model);
        StreamingDecoder decoder(tokenizer);
        std::string text;
        const auto show = [&](const std::string& piece) {
            text += piece;
            if (!options.json) print(piece);
        };
        show(tokenizer.decode(prompt));
        generate(engine, model, prompt, settings, tokenizer.vocabulary(), static_cast<std::uint64_t>(options.seed),
                 [&](Token token) { show(decoder.add(token)); });
        show(decoder.finish());
        Json document = Json::object();
        document.set("text", text).set("checkpoint", source.path().string());
        print(options.json ? document.dump() + "\n" : "\n");
    });
    return kExitOk;
}

}  // namespace cleave
