#include "train/metrics.h"

#include <gmock/gmock.h>

#include "support/scratch.h"

namespace cleave {
namespace {

using testing::HasSubstr;

class MetricsTest : public testing::Test {
  protected:
    std::filesystem::path path() const { return folder_ / "metrics.jsonl"; }
    ScratchFolder folder_;
};

TEST_F(MetricsTest, ALineIsInTheFileAtOnce) {
    Metrics metrics(path(), std::nullopt);
    metrics.append(Json{{"step", 0}, {"loss", 4.5}});
    EXPECT_EQ(read_all(path()), "{\"step\": 0, \"loss\": 4.5}\n");
}

TEST_F(MetricsTest, ResumingDropsWhatComesAgain) {
    {
        Metrics metrics(path(), std::nullopt);
        for (int step = 0; step < 5; ++step) metrics.append(Json{{"step", step}, {"loss", 0.1}});
    }
    write_all(path(), read_all(path()) + R"({"step": 5, "lo)");  // killed while it wrote
    Metrics(path(), 3).append(Json{{"step", 3}, {"loss", 0.25}});
    EXPECT_EQ(read_all(path()),
              "{\"step\": 0, \"loss\": 0.1}\n{\"step\": 1, \"loss\": 0.1}\n{\"step\": 2, \"loss\": 0.1}\n"
              "{\"step\": 3, \"loss\": 0.25}\n");
}

TEST_F(MetricsTest, AFreshRunBeginsAFreshFile) {
    write_all(path(), "{\"step\": 9}\n");
    Metrics metrics(path(), std::nullopt);
    EXPECT_EQ(read_all(path()), "");
}

TEST_F(MetricsTest, NamesTheLineThatIsDamaged) {
    write_all(path(), "{\"step\": 0}\n{\"step\": }\n");
    EXPECT_THAT(user_error([&] { read_metrics(path()); }), HasSubstr("metrics.jsonl:2"));
    write_all(path(), "{\"step\": 0}\n{\"loss\": 1}\n");
    EXPECT_THAT(user_error([&] { read_metrics(path()); }), HasSubstr("metrics.jsonl:2: a line without \"step\""));
}

}  // namespace
}  // namespace cleave
