// Shapes: a short list of extents, held inline (no allocation: shapes are copied in every launch).
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/error.h"

namespace cleave {

inline constexpr int kMaxRank = 6;  // of a tensor

class Shape {
  public:
    Shape() = default;
    Shape(std::initializer_list<std::int64_t> extents) {
        for (auto e : extents) push_back(e);
    }
    explicit Shape(std::span<const std::int64_t> extents) {
        for (auto e : extents) push_back(e);
    }
    static Shape filled(int rank, std::int64_t value) {
        Shape s;
        for (int i = 0; i < rank; ++i) s.push_back(value);
        return s;
    }

    int rank() const { return rank_; }
    std::int64_t operator[](int dim) const { return extents_[static_cast<std::size_t>(checked(dim))]; }
    std::int64_t& operator[](int dim) { return extents_[static_cast<std::size_t>(checked(dim))]; }
    std::int64_t back() const { return (*this)[rank_ - 1]; }
    void push_back(std::int64_t extent) {
        CLEAVE_CHECK(rank_ < kMaxRank);
        extents_[static_cast<std::size_t>(rank_++)] = extent;
    }
    // The number of elements; 1 for a scalar (rank 0).
    std::int64_t elements() const { return product(0, rank_); }
    // The product of the extents of dims [first, last).
    std::int64_t product(int first, int last) const {
        std::int64_t n = 1;
        for (int i = first; i < last; ++i) n *= (*this)[i];
        return n;
    }
    const std::int64_t* begin() const { return extents_.data(); }
    const std::int64_t* end() const { return extents_.data() + rank_; }
    friend bool operator==(const Shape& a, const Shape& b) {
        if (a.rank_ != b.rank_) return false;
        for (int i = 0; i < a.rank_; ++i)
            if (a[i] != b[i]) return false;
        return true;
    }

  private:
    int checked(int dim) const {
        CLEAVE_CHECK(dim >= 0 && dim < rank_, "dim {} of a shape of rank {}", dim, rank_);
        return dim;
    }
    std::array<std::int64_t, kMaxRank> extents_{};
    int rank_ = 0;
};

std::string to_string(const Shape& shape);  // "[4, 64, 128]"

}  // namespace cleave
