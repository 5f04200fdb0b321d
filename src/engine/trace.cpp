#include "engine/trace.h"

#include <fmt/format.h>

#include <chrono>
#include <map>

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

double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string escaped(std::string_view text) {
    std::string out;
    for (char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        if (static_cast<unsigned char>(c) >= 0x20) out += c;
    }
    return out;
}

}  // namespace

void Trace::start() {
    events_.clear();
    origin_ = seconds();
    on_ = true;
}

double Trace::now() const {
    return seconds() - origin_;
}

std::string chrome_trace(const std::vector<std::vector<Event>>& by_rank) {
    constexpr double kMicro = 1e6;
    std::string out = "{\"traceEvents\":[\n";
    auto line = [&](const std::string& text) { out += (out.back() == '\n' && out.size() < 20 ? "" : ",\n") + text; };
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
        line(fmt::format(R"({{"ph":"M","pid":{0},"name":"process_name","args":{{"name":"rank {0}"}}}})", rank));
        line(fmt::format(R"({{"ph":"M","pid":{},"tid":0,"name":"thread_name","args":{{"name":"compute"}}}})", rank));
        line(fmt::format(R"({{"ph":"M","pid":{},"tid":1,"name":"thread_name","args":{{"name":"communication"}}}})", rank));
        std::map<std::string, double> issued;  // detail -> when, for the span of the operation in flight
        for (const Event& event : by_rank[rank]) {
            const std::string name = escaped(event.name);
            const std::string detail = escaped(event.detail);
            if (event.type == EventType::mark) {
                line(fmt::format(R"({{"ph":"i","s":"t","pid":{},"tid":0,"name":"{}","ts":{:.3f}}})", rank, name,
                                 event.begin * kMicro));
                continue;
            }
            line(fmt::format(R"({{"ph":"X","pid":{},"tid":0,"cat":"{}","name":"{}","ts":{:.3f},"dur":{:.3f},)"
                             R"("args":{{"detail":"{}","bytes":{},"flops":{}}}}})",
                             rank, name_of(event.type), name, event.begin * kMicro, (event.end - event.begin) * kMicro,
                             detail, event.bytes, event.flops));
            line(fmt::format(R"({{"ph":"C","pid":{},"name":"live bytes","ts":{:.3f},"args":{{"bytes":{}}}}})", rank,
                             event.end * kMicro, event.live_bytes));
            if (event.type == EventType::issue) issued[event.detail] = event.begin;
            if (event.type == EventType::wait && issued.count(event.detail) != 0)
                line(fmt::format(R"({{"ph":"X","pid":{},"tid":1,"cat":"in flight","name":"{}","ts":{:.3f},"dur":{:.3f},)"
                                 R"("args":{{"detail":"{}"}}}})",
                                 rank, name, issued[event.detail] * kMicro,
                                 (event.end - issued[event.detail]) * kMicro, detail));
        }
    }
    return out + "\n]}\n";
}

}  // namespace cleave
