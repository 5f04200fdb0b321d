#include "train/gather_text.h"

namespace cleave {

std::vector<std::string> gather_text(comm::Communicator& world, const std::string& text) {
    const auto own = static_cast<std::int64_t>(text.size());
    std::vector<std::int64_t> counts(static_cast<std::size_t>(world.size()));
    world.all_gather(&own, counts.data(), 1, DType::i64).wait();
    std::size_t total = 0;
    for (std::int64_t count : counts) total += static_cast<std::size_t>(count);
    std::string all(world.rank() == 0 ? total : 0, '\0');
    world.gather(text.data(), all.data(), counts, DType::u8, 0).wait();
    std::vector<std::string> texts;
    std::size_t begin = 0;
    if (world.rank() == 0)
        for (std::int64_t count : counts) {
            texts.push_back(all.substr(begin, static_cast<std::size_t>(count)));
            begin += static_cast<std::size_t>(count);
        }
    return texts;
}

}  // namespace cleave
