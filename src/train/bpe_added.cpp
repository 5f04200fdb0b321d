#include "train/bpe_added.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace cleave {
namespace {

unsigned char first_byte(std::string_view text) {
    return static_cast<unsigned char>(text.front());
}

}  // namespace

void AddedTokens::add(std::string content, Token token) {
    CLEAVE_CHECK(!content.empty());
    Entry entry{std::move(content), token};
    const auto before = [](const Entry& a, const Entry& b) {
        const auto x = first_byte(a.content);
        const auto y = first_byte(b.content);
        return x != y ? x < y : a.content.size() > b.content.size();
    };
    for (std::size_t byte = first_byte(entry.content) + std::size_t{1}; byte < first_.size(); ++byte) ++first_[byte];
    tokens_.insert(std::upper_bound(tokens_.begin(), tokens_.end(), entry, before), std::move(entry));
}

AddedTokens::Found AddedTokens::find(std::string_view text, std::size_t from) const {
    if (tokens_.empty()) return {text.size(), text.size(), -1};
    // Nearly always all of them begin with the same byte.
    const char only = tokens_.front().content.front();
    const bool one = tokens_.back().content.front() == only;
    for (std::size_t at = from; at < text.size(); ++at) {
        if (one) {
            const void* next = std::memchr(text.data() + at, only, text.size() - at);
            if (next == nullptr) break;
            at = static_cast<std::size_t>(static_cast<const char*>(next) - text.data());
        }
        const std::string_view rest = text.substr(at);
        const auto byte = first_byte(rest);
        for (std::size_t i = first_[byte]; i < first_[byte + std::size_t{1}]; ++i)
            if (rest.starts_with(tokens_[i].content)) return {at, at + tokens_[i].content.size(), tokens_[i].token};
    }
    return {text.size(), text.size(), -1};
}

}  // namespace cleave
