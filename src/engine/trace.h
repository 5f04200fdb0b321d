// One event schema for the executing and the virtual engine. Events of one rank and stream stand in program order.
// Thread rule: one rank's thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/gemm.h"

namespace cleave {

enum class EventType : std::uint8_t {
    launch,  // a kernel, on the compute stream
    issue,   // a collective or a send or receive is handed to the communication stream
    wait,    // the compute stream waits for it
    local,   // a transition that needs no communication, or none but another label ("nothing")
    read,    // a scalar comes to the host
    write,   // host data goes into a tensor
    mark,    // a named point of the program ("forward 3")
};
std::string_view name_of(EventType type);

struct Event {
    EventType type;
    std::string name;        // of the kernel, the collective, the mark
    std::string detail;      // what it works on
    std::int64_t bytes = 0;  // launch: read and written; issue: sent by this rank
    double flops = 0;
    std::int64_t live_bytes = 0;  // the ledger's total after the event
    double begin = 0;             // seconds since the trace began; 0 on the virtual engine
    double end = 0;
    std::vector<kernels::Product> products = {};  // launch: the matrix products that it consists of
    std::string placement = {};                   // launch: of its first output; issue and local: "P -> I along tp"
    double moving = 0;  // launch: seconds after its end in which the rank moved data that is in flight
};

// Seconds of the rank's own thread that communication took: handing it over, blocked in waits for it, moving data.
double exposed_communication(const Event& event);
double exposed_communication(std::span<const Event> events);

class Trace {
  public:
    void start();  // forgets what was recorded
    void stop() { on_ = false; }
    bool on() const { return on_; }
    double now() const;  // seconds since start()
    void add(Event event) { events_.push_back(std::move(event)); }
    const std::vector<Event>& events() const { return events_; }

  private:
    bool on_ = false;
    double origin_ = 0;
    std::vector<Event> events_;
};

// For ui.perfetto.dev or chrome://tracing: one rank's events as a process with a thread for its kernels, one for what
// is in flight and counters of live memory and of the exposed communication so far (a fragment), and the fragments of
// all ranks as one JSON document.
std::string chrome_events(int rank, const std::vector<Event>& events);
std::string chrome_trace(const std::vector<std::string>& fragments);

}  // namespace cleave
