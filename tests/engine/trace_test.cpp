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

// Issue 0.25, wait 1, a local piece 0.5, moved after a kernel 0.125; kernels, reads and marks are none of it.
TEST(Trace, ExposedCommunicationIsWhatTheRanksOwnThreadGivesToIt) {
    std::vector<Event> events{{EventType::mark, "reduce", "", 0, 0, 0, 0, 0.5},
                              {EventType::issue, "all_reduce", "bucket #1", 64, 0, 10, 1.0, 1.25},
                              {EventType::launch, "matmul", "y", 8, 16, 10, 2.0, 3.0},
                              {EventType::wait, "all_reduce", "bucket #1", 0, 0, 10, 3.0, 4.0},
                              {EventType::local, "slice", "x", 0, 0, 10, 4.0, 4.5},
                              {EventType::read, "read", "loss", 0, 0, 10, 4.5, 9.0}};
    events[2].moving = 0.125;
    EXPECT_EQ(exposed_communication(events), 0.25 + 1 + 0.5 + 0.125);
    const std::string text = chrome_events(0, events);
    EXPECT_NE(text.find(R"("ts":4500000.000,"args":{"exposed_comm_s":1.875000000})"), std::string::npos) << text;
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
