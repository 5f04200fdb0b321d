// What `cleave train` hands to the trainer.
// Thread rule: a value.
#pragma once

#include <string>

#include "train/job.h"

namespace cleave {

struct TrainOptions {
    Job job;
    int ranks = 1;
    bool resume = false;      // go on from the run folder's newest checkpoint
    bool overwrite = false;   // begin anew in a run folder that exists
    bool dry_run = false;     // one step on the virtual engine: memory, bytes, flops
    bool json = false;        // the result as one JSON document on standard output
    std::string config_text;  // the effective configuration, TOML, for the run folder
};

}  // namespace cleave
