// The element types of safetensors files, and their values as ours. To f32: F32, BF16 and F16 are exact, F64 rounds to
// nearest. To f64 all are exact. To bf16 all round to nearest, ties to even (from F64 by way of f32).
// Thread rule: pure functions; conversions use the calling rank's team.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/dtype.h"

namespace cleave {

// As a header spells it ("BF16"); `bits` of one element.
struct StoredType {
    std::string_view name;
    std::int64_t bits;
};
inline constexpr StoredType kStoredTypes[] = {{"F64", 64}, {"F32", 32}, {"F16", 16}, {"BF16", 16},   {"I64", 64},
                                              {"I32", 32}, {"I16", 16}, {"I8", 8},   {"U64", 64},    {"U32", 32},
                                              {"U16", 16}, {"U8", 8},   {"BOOL", 8}, {"F8_E4M3", 8}, {"F8_E5M2", 8}};

// nullopt: the format knows no such type.
std::optional<StoredType> stored_type(std::string_view name);
// Floating-point types whose values convert_values() reads.
bool is_readable(const StoredType& type);
// The type that stores a dtype as it is: f64, f32 or bf16.
StoredType stored_as(DType dtype);

// `bytes`: count x bits / 8 of a readable type, anyhow aligned; `destination`: count elements of a floating dtype.
void convert_values(const StoredType& from, std::span<const std::byte> bytes, DType to, void* destination);

}  // namespace cleave
