// Runs a fuzz target over the files of a folder: its corpus, as an ordinary test. Also over every file cut at some
// places and with some bytes changed, so that the corpus need not hold what is made so easily.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "fuzz/fuzz.h"
#include "support/scratch.h"

namespace {

void run(const std::string& bytes) {
    // An exact copy on the heap: reading past its end is seen by the address sanitizer.
    const std::vector<std::uint8_t> copy(bytes.begin(), bytes.end());
    LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

void run_damaged(const std::string& bytes) {
    constexpr std::size_t kPlaces = 24;
    for (std::size_t i = 0; i < kPlaces; ++i) {
        const std::size_t at = bytes.size() * i / kPlaces;
        run(bytes.substr(0, at));
        std::string changed = bytes;
        if (changed.empty()) continue;
        changed[at] = static_cast<char>(changed[at] ^ (1 << i % 8));
        run(changed);
    }
}

}  // namespace

int main(int argc, char** argv) {
    std::size_t files = 0;
    for (int i = 1; i < argc; ++i)
        for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
            if (!entry.is_regular_file()) continue;
            const std::string bytes = cleave::read_all(entry.path());
            run(bytes);
            run_damaged(bytes);
            ++files;
        }
    std::printf("%zu files replayed\n", files);
    return files > 0 ? 0 : 1;
}
