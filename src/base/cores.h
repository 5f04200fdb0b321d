// How many cores this process may use, and how its OpenMP threads are to wait.
// Thread rule: available_cores() and asked_threads() may be called from any thread; prepare_threads() first in main().
#pragma once

#include <optional>

namespace cleave {

// The cores of this process's affinity mask (taskset, a batch system, mpirun's binding), not those of the machine.
int available_cores();
// The cores of the machine that are switched on.
int machine_cores();

// Threads of a rank as the environment asks for them: the first number of OMP_NUM_THREADS. Text that is no such number
// is none, as to the OpenMP library.
std::optional<int> asked_threads();

// The threads of each of `local_ranks` ranks on this machine: what the user asked for, otherwise an equal part of the
// cores. `processes`: the ranks are processes of their own, whose masks a launcher may have made disjoint already.
int threads_a_rank(int local_ranks, bool processes);

// A thread that waits for its team spins for milliseconds by default (GOMP), and where other programs want the cores
// every wait of a step costs a time slice. The OpenMP library reads its environment before main(): where the user
// has not chosen how to wait, this sets a short spin and runs the program anew, once. Does nothing if it cannot.
void prepare_threads(char** argv);

}  // namespace cleave
