#include "train/bpe_encoder.h"

#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/utf8.h"
#include "train/bpe_normalizer.h"

namespace cleave {
namespace {

// Where the characters that begin at `at` end: the first byte that is not UTF-8, or the text's end.
std::size_t end_of_utf8(std::string_view text, std::size_t at) {
    constexpr std::uint64_t kHighBits = 0x8080808080808080u;
    for (;;) {
        std::uint64_t eight = 0;
        while (at + sizeof(eight) <= text.size()) {
            std::memcpy(&eight, text.data() + at, sizeof(eight));
            if ((eight & kHighBits) != 0) break;
            at += sizeof(eight);
        }
        if (at == text.size()) return at;
        const Utf8Step step = utf8_step(text, at);
        if (!step.valid) return at;
        at += step.length;
    }
}

std::size_t end_of_broken(std::string_view text, std::size_t at) {
    while (at < text.size() && !utf8_step(text, at).valid) ++at;
    return at;
}

}  // namespace

void BpeEncoder::encode(std::string_view text, std::vector<Token>& tokens) {
    tokens_ = &tokens;
    cut_at(bpe_.added, text, [this](std::string_view piece) { encode_bytes(piece); });
}

template <class Between>
void BpeEncoder::cut_at(const AddedTokens& added, std::string_view text, Between&& between) {
    for (std::size_t at = 0; at < text.size();) {
        const AddedTokens::Found found = added.find(text, at);
        if (found.begin > at) between(text.substr(at, found.begin - at));
        if (found.end > found.begin) tokens_->push_back(found.token);
        at = found.end;
    }
}

void BpeEncoder::encode_bytes(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = end_of_utf8(text, at);
        if (end > at) encode_utf8(text.substr(at, end - at));
        at = end_of_broken(text, end);
        if (at > end) encode_word(text.substr(end, at - end));
    }
}

void BpeEncoder::encode_utf8(std::string_view text) {
    if (bpe_.normal_form_c) text = normal_form_c(text, normalized_);
    cut_at(bpe_.added_normalized, text, [this](std::string_view piece) {
        splitter_.for_each_word(piece, [this](std::string_view word) { encode_word(word); });
    });
}

void BpeEncoder::encode_word(std::string_view word) {
    const auto known = cache_.find(word);
    if (!known.empty()) {
        tokens_->insert(tokens_->end(), known.begin(), known.end());
        return;
    }
    merge_word(word);
    cache_.add(word, word_);
    tokens_->insert(tokens_->end(), word_.begin(), word_.end());
}

void BpeEncoder::merge_word(std::string_view word) {
    word_.clear();
    if (bpe_.ignore_merges) {
        const auto whole = bpe_.whole.find(std::string(word));
        if (whole != bpe_.whole.end()) {
            word_.push_back(whole->second);
            return;
        }
    }
    for (char c : word) {
        const Token token = bpe_.of_byte[static_cast<unsigned char>(c)];
        if (token < 0)
            throw UserError("{}: its vocabulary has no token for the byte 0x{:02x}, which the text contains",
                            bpe_.source, static_cast<unsigned char>(c));
        word_.push_back(token);
    }
    bpe_.merges.apply(word_, scratch_);
}

}  // namespace cleave
