// Any bytes as a file of a schedule. What is accepted is whole: it is written, read back the same, and simulated.
#include "fuzz/fuzz.h"
#include "parallel/schedule_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace cleave;
    constexpr std::size_t kMostBytes = 1 << 14;
    if (size > kMostBytes) return 0;
    fuzz::answers([&] {
        const PipelineSchedule schedule = parse_schedule(fuzz::text_of(data, size), "input", {});
        const std::string text = schedule_text(schedule, ScheduleListing::whole);
        CLEAVE_CHECK(parse_schedule(text, "again", {}).of_stage == schedule.of_stage);
        const Timeline timeline = simulate(schedule, {});
        CLEAVE_CHECK(figures_of(schedule, {}, timeline).total >= 3.0 * schedule.microbatches);
    });
    return 0;
}
