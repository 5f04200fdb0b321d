#include "engine/trace.h"

#include <gtest/gtest.h>

namespace cleave {
namespace {

TEST(Trace, ChromeDocumentShowsAnOperationInFlight) {
    const std::vector<Event> events{{EventType::mark, "reduce", "", 0, 0, 0, 0.5, 0.5},
                                    {EventType::issue, "all_reduce", "bucket #1", 64, 0, 10, 1.0, 1.25},
                                    {EventType::launch, "matmul", "a \"quoted\" name", 8, 16, 10, 2.0, 3.0},
                                    {EventType::wait, "all_reduce", "bucket #1", 0, 0, 10, 3.0, 4.0}};
    const std::string text = chrome_trace({chrome_events(0, events), chrome_events(1, {})});
    EXPECT_NE(
        text.find(
            R"("ph":"X","pid":0,"tid":1,"cat":"in flight","name":"all_reduce","ts":1000000.000,"dur":3000000.000)"),
        std::string::npos)
        << text;
    EXPECT_NE(text.find(R"("detail":"a \"quoted\" name","bytes":8,"flops":16)"), std::string::npos) << text;
    EXPECT_NE(text.find(R"({"name":"rank 1"})"), std::string::npos);
    EXPECT_EQ(text.find(",,"), std::string::npos);
    EXPECT_EQ(text.find("[,"), std::string::npos);
}

TEST(Trace, RecordsOnlyWhileOn) {
    Trace trace;
    EXPECT_FALSE(trace.on());
    trace.start();
    trace.add({EventType::mark, "a", "", 0, 0, 0, 0, 0});
    trace.start();
    EXPECT_TRUE(trace.events().empty());
    trace.stop();
    EXPECT_FALSE(trace.on());
}

}  // namespace
}  // namespace cleave
