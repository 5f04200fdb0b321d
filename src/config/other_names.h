// What other trainers call our keys: names that no search by spelling finds.
// Thread rule: a pure function.
#pragma once

#include <string>
#include <string_view>

namespace cleave {

// The key that is meant by `name` ("mesh.sp", "fsdp", "parallel.tensor_parallel_size", "learning-rate"): the whole name
// first, then what stands behind its last point. Empty where it is nobody's name for one.
std::string_view key_known_as(std::string_view name);

}  // namespace cleave
