#include "engine/trace.h"

#include <fmt/format.h>

#include <map>

#include "base/clock.h"
#include "placement/transition.h"

namespace cleave {

std::string_view name_of(EventType type) {
    switch (type) {
        case EventType::launch: return "launch";
        case EventType::issue: return "issue";
        case EventType::wait: return "wait";
        case EventType::local: return "local";
        case EventType::read: return "read";
        case EventType::write: return "write";
        case EventType::mark: return "mark";
    }
    return "?";
}

namespace {

std::string escaped(std::string_view text) {
    std::string out;
    for (char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        if (static_cast<unsigned char>(c) >= 0x20) out += c;
    }
    return out;
}

}  // namespace

double exposed_communication(const Event& event) {
    switch (event.type) {
        case EventType::launch: return event.moving;
        case EventType::issue:
        case EventType::wait:
        case EventType::local: return event.end - event.begin;
        case EventType::read:
        case EventType::write:
        case EventType::mark: break;
    }
    return 0;
}

double exposed_communication(std::span<const Event> events) {
    double sum = 0;
    for (const Event& event : events) sum += exposed_communication(event);
    return sum;
}

void Trace::start() {
    events_.clear();
    origin_ = seconds();
    on_ = true;
}

double Trace::now() const {
    return seconds() - origin_;
}

namespace {

constexpr double kMicro = 1e6;  // Chrome's times are in microseconds

std::string span(int rank, int thread, std::string_view category, const Event& event, double begin) {
    return fmt::format(R"({{"ph":"X","pid":{},"tid":{},"cat":"{}","name":"{}","ts":{:.3f},"dur":{:.3f},)"
                       R"("args":{{"detail":"{}","bytes":{},"flops":{}}}}})",
                       rank, thread, category, escaped(event.name), begin * kMicro, (event.end - begin) * kMicro,
                       escaped(event.detail), event.bytes, event.flops);
}

}  // namespace

std::string chrome_events(int rank, const std::vector<Event>& events) {
    std::string out;
    auto add = [&](const std::string& text) { out += (out.empty() ? "" : ",\n") + text; };
    add(fmt::format(R"({{"ph":"M","pid":{0},"name":"process_name","args":{{"name":"rank {0}"}}}})", rank));
    add(fmt::format(R"({{"ph":"M","pid":{},"tid":0,"name":"thread_name","args":{{"name":"compute"}}}})", rank));
    add(fmt::format(R"({{"ph":"M","pid":{},"tid":1,"name":"thread_name","args":{{"name":"in flight"}}}})", rank));
    double exposed = 0;
    std::map<std::string, double> issued;  // by detail, which numbers the operation
    for (const Event& event : events) {
        if (event.type == EventType::mark) {
            add(fmt::format(R"({{"ph":"i","s":"t","pid":{},"tid":0,"name":"{}","ts":{:.3f}}})", rank,
                            escaped(event.name), event.begin * kMicro));
            continue;
        }
        if (event.type == EventType::local && event.name == name_of(Action::nothing)) continue;  // takes no time
        add(span(rank, 0, name_of(event.type), event, event.begin));
        add(fmt::format(R"({{"ph":"C","pid":{},"name":"live bytes","ts":{:.3f},"args":{{"bytes":{}}}}})", rank,
                        event.end * kMicro, event.live_bytes));
        if (const double own = exposed_communication(event); own > 0)
            add(fmt::format(R"({{"ph":"C","pid":{},"name":"exposed communication s","ts":{:.3f},)"
                            R"("args":{{"exposed_comm_s":{:.9f}}}}})",
                            rank, (event.end + event.moving) * kMicro, exposed += own));
        if (event.type == EventType::issue) issued[event.detail] = event.begin;
        if (const auto issue = issued.find(event.detail); event.type == EventType::wait && issue != issued.end())
            add(span(rank, 1, "in flight", event, issue->second));
    }
    return out;
}

std::string chrome_trace(const std::vector<std::string>& fragments) {
    std::string out = "{\"traceEvents\":[\n";
    for (std::size_t i = 0; i < fragments.size(); ++i) out += (i == 0 ? "" : ",\n") + fragments[i];
    return out + "\n]}\n";
}

}  // namespace cleave
