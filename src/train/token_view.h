// Token ids as they stand in memory or in a mapped file: unsigned, of 1, 2 or 4 bytes, little-endian, aligned.
// Thread rule: a value; what it looks at must stay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/error.h"
#include "train/bpe_merges.h"

namespace cleave {

class TokenView {
  public:
    TokenView() = default;
    TokenView(std::span<const Token> tokens) : TokenView(std::as_bytes(tokens), sizeof(Token)) {}
    TokenView(std::span<const std::byte> bytes, std::size_t width)
        : data_(bytes.data()), size_(bytes.size() / width), width_(width) {
        CLEAVE_CHECK((width == 1 || width == 2 || width == 4) && bytes.size() % width == 0);
    }

    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    // Ids from 2^31 on are negative.
    Token operator[](std::size_t i) const {
        switch (width_) {
            case 1: return static_cast<Token>(data_[i]);
            case 2: return load<std::uint16_t>(i);
            default: return load<Token>(i);
        }
    }
    TokenView first(std::size_t count) const { return part(0, count); }
    TokenView subspan(std::size_t begin) const { return part(begin, size_ - begin); }
    std::vector<Token> copy() const {
        std::vector<Token> tokens(size_);
        for (std::size_t i = 0; i < size_; ++i) tokens[i] = (*this)[i];
        return tokens;
    }

  private:
    TokenView part(std::size_t begin, std::size_t count) const {
        CLEAVE_CHECK(begin <= size_ && count <= size_ - begin);
        return {std::span(data_ + begin * width_, count * width_), width_};
    }
    template <class T>
    Token load(std::size_t i) const {
        T value;
        std::memcpy(&value, data_ + i * sizeof(T), sizeof(T));
        return static_cast<Token>(value);
    }

    const std::byte* data_ = nullptr;
    std::size_t size_ = 0;
    std::size_t width_ = sizeof(Token);
};

}  // namespace cleave
