// Ctrl-C. The first SIGINT or SIGTERM asks the run to stop: it finishes its step, writes a checkpoint and ends with
// exit code 130. The second one ends the process at once, with the same code. Thread rule: stop_requested() may be
// called from any thread; install the handler once, from the main thread.
#pragma once

namespace cleave {

// `notice`: the first signal is answered with a line on standard error.
void install_stop_handler(bool notice = true);
bool stop_requested();

}  // namespace cleave
