#include "train/stop_text.h"

#include <algorithm>
#include <utility>

namespace cleave {

namespace {

// How many bytes at the end of `text` are the beginning of `word`, short of all of it.
std::size_t begun(std::string_view text, std::string_view word) {
    std::size_t length = std::min(text.size(), word.size() - 1);
    while (length > 0 && text.substr(text.size() - length) != word.substr(0, length)) --length;
    return length;
}

}  // namespace

std::string StopText::add(std::string_view piece) {
    if (found_) return {};
    held_ += piece;
    std::size_t certain = held_.size();
    for (const std::string& word : words_) {
        const std::size_t at = held_.find(word);
        found_ = found_ || at != std::string::npos;
        certain = std::min(certain, at);
    }
    if (!found_) {
        std::size_t open = 0;
        for (const std::string& word : words_) open = std::max(open, begun(held_, word));
        certain -= open;
    }
    std::string text = held_.substr(0, certain);
    held_.erase(0, certain);
    return text;
}

std::string StopText::finish() {
    return found_ ? std::string() : std::exchange(held_, {});
}

}  // namespace cleave
