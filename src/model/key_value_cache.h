// The keys and values of the tokens that a model has seen: with them a further token costs its own pass alone. One pair
// of tensors [b capacity g d] a block, placed and typed as that block's keys and values and made at its first pass; a
// pass writes its rows at their positions, and what stood there or stands behind is no longer part of the sequence. It
// is for passes without backward. Thread rule: one rank's thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "engine/engine.h"

namespace cleave {

class KeyValueCache {
  public:
    // Of sequences of at most `capacity` tokens.
    KeyValueCache(Engine& engine, std::int64_t capacity) : engine_(engine), capacity_(capacity) {}

    struct KeysAndValues {
        Tensor keys, values;
    };
    // Writes those of a block's pass, [b t g d], at positions first_position and following. Returns all of the
    // sequence, views of [b first_position+t g d].
    KeysAndValues extend(const std::string& block, std::int64_t first_position, const Tensor& keys,
                         const Tensor& values);

    std::int64_t capacity() const { return capacity_; }

  private:
    Tensor alloc_like(const Tensor& rows);

    Engine& engine_;
    std::int64_t capacity_;
    std::map<std::string, KeysAndValues> blocks_;
};

}  // namespace cleave
