// The value of --dtype: in which type a command computes.
// Thread rule: a pure function.
#pragma once

#include <optional>
#include <string>

#include "base/dtype.h"
#include "base/error.h"

namespace cleave::cli {

// None where the option was not given.
inline std::optional<DType> compute_dtype(const std::string& word) {
    if (word.empty()) return std::nullopt;
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
        if (word == name_of(dtype)) return dtype;
    throw UserError("--dtype: found '{}'; accepted: f32, bf16, f64", word);
}

}  // namespace cleave::cli
