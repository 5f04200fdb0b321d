// The line that a rank's process writes when it is told to end by SIGTERM: its last operation. When one process of a
// job dies, mpirun names it and sends SIGTERM to the others (Open MPI: and SIGKILL a second later), so these lines say
// where the survivors were. The signal then goes to whoever handled it before (base/stop.h, or the system, which ends
// the process).
//
// The line is composed whenever it changes, because a signal handler may neither format nor allocate.
// Thread rule: at most one object a process, used by the rank's thread. The handler may run in any thread; it only
// reads.
#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <string>

namespace cleave::comm {

class LastWords {
  public:
    explicit LastWords(int rank);
    ~LastWords();
    LastWords(const LastWords&) = delete;
    LastWords& operator=(const LastWords&) = delete;

    void issued(std::string operation);
    void waiting(const std::string& operation);
    void wait_is_over();

  private:
    struct Line {
        std::array<char, 512> text;
        std::size_t length = 0;
    };
    void say(const std::string& what);
    static void on_signal(int signal, siginfo_t* info, void* context);

    static std::atomic<const Line*> current;
    static struct sigaction before;  // who handled the signal until now; constant while ours is installed
    const int rank_;
    std::string last_issued_;
    std::array<Line, 4> lines_;  // used in turn: a line being written out is not composed anew at once
    std::size_t next_ = 0;
};

}  // namespace cleave::comm
