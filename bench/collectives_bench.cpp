#include <cstdlib>
#include <cstring>
#include <string>
#include "cli/bench_collectives.h"
using namespace cleave;
int main(int argc, char** argv) {
    cli::BenchOptions o;
    o.op = comm::operation_from(argv[1]);
    o.ranks = argc > 2 ? std::atoi(argv[2]) : 0;
    if (argc > 3) o.algorithm = comm::algorithm_from(argv[3]);
    if (argc > 4) o.min_bytes = std::atoll(argv[4]);
    if (argc > 5) o.max_bytes = std::atoll(argv[5]);
    o.copy_bound = argc > 6;
    if (argc > 7) o.iterations = std::atoi(argv[7]);
    o.fingerprints = !(argc > 3 && std::string(argv[3]) == "native");
    return cli::bench_collective(o, stdout);
}
