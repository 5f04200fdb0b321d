// What `cleave tokenize` does: a text file to a token file. Returns the program's exit code; failures are thrown.
// Thread rule: called from the main thread.
#pragma once

#include <string>

namespace cleave {

struct TokenizeOptions {
    std::string input;                // any text file
    std::string tokenizer = "bytes";  // char, bytes, or the path of a tokenizer.json
    std::string output;               // ends in .bin
    std::string format = "cleave";
    bool overwrite = false;
    bool json = false;
};

int run_tokenization(const TokenizeOptions& options);

}  // namespace cleave
