// Ctrl-C. The first SIGINT, SIGTERM, SIGHUP (a closed terminal, but not under nohup) or SIGUSR1 (which mpirun hands on)
// asks the run to stop: it finishes its step, writes a checkpoint and ends with exit code 130. The second one ends the
// process at once, with the same code; within 0.1 s of the first it is taken for the same request, as timeout(1) and a
// closed terminal signal twice. A run that can be stopped so does not end because nobody reads its log any more
// (SIGPIPE is ignored). Thread rule: stop_requested() may be called from any thread; install the handler once, from the
// main thread.
#pragma once

namespace cleave {

// `notice`: signals are answered at once with a line on standard error.
void install_stop_handler(bool notice = true);
bool stop_requested();

}  // namespace cleave
