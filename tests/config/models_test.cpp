// The models that the program knows by name: each file is valid and has as many parameters as its name says.
#include "config/models.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "comm/types.h"
#include "engine/virtual_engine.h"
#include "model/transformer.h"
#include "parallel/data_parallel.h"
#include "train/job_check.h"

namespace cleave {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::int64_t parameters_of(const ModelConfig& model) {
    const Mesh mesh({{"dp", 1}});
    VirtualEngine engine(mesh, 0, comm::TransportKind::inproc, 1);
    return Transformer(engine, model, data_parallel_layouts(mesh), DType::bf16).parameter_count();
}

// "gpt2-124m" to 124e6.
double size_in_name(std::string_view name) {
    const auto digits = name.substr(name.rfind('-') + 1);
    return std::stod(std::string(digits)) * (digits.back() == 'b' ? 1e9 : 1e6);
}

TEST(Models, AreValidAndAsLargeAsTheirNamesSay) {
    ASSERT_GE(model_files().size(), 4U);
    for (const ModelFile& file : model_files()) {
        SCOPED_TRACE(file.name);
        EXPECT_THAT(file.text, HasSubstr("\n# "));  // the source
        const RunFile run = read_model_or_run_file(std::string(file.name), {});
        EXPECT_THAT(run.problems, IsEmpty());
        EXPECT_THAT(check_without_text(run.job, 1), IsEmpty());
        EXPECT_EQ(run.job.train.batch, 1);
        const double size = size_in_name(file.name);
        EXPECT_NEAR(static_cast<double>(parameters_of(run.job.model)), size, 0.01 * size);
    }
}

TEST(Models, HaveTheParametersThatWerePublished) {
    const auto count = [](const char* name) { return parameters_of(read_model_or_run_file(name, {}).job.model); };
    EXPECT_EQ(count("gpt2-124m"), 124439808);     // openai-community/gpt2 has so many
    EXPECT_EQ(count("smollm2-135m"), 134515008);  // HuggingFaceTB/SmolLM2-135M
    EXPECT_EQ(count("llama3-8b"), 8030261248);    // meta-llama/Meta-Llama-3-8B
}

TEST(Models, AreChangedBySetsAndRefusedWhereUnknown) {
    const RunFile run = read_model_or_run_file("gpt2-124m", {"train.batch=4", "model.context=256"});
    EXPECT_EQ(run.job.train.batch, 4);
    EXPECT_EQ(run.job.model.context, 256);
    EXPECT_EQ(run.job.model.positions, 1024);
    try {
        read_model_or_run_file("gpt2-125m", {});
        FAIL() << "an unknown model was accepted";
    } catch (const UserError& error) {
        EXPECT_THAT(error.what(), HasSubstr("did you mean 'gpt2-124m'?"));
        EXPECT_THAT(error.what(), HasSubstr("llama-100m"));
    }
}

}  // namespace
}  // namespace cleave
