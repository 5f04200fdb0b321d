#include "base/dtype.h"

namespace cleave {

std::string_view name_of(DType dtype) {
    switch (dtype) {
        case DType::f64: return "f64";
        case DType::f32: return "f32";
        case DType::bf16: return "bf16";
        case DType::i64: return "i64";
        case DType::i32: return "i32";
        case DType::u8: return "u8";
    }
    return "?";
}

DType dtype_from(std::string_view name) {
    for (DType dtype : kAllDTypes)
        if (name_of(dtype) == name) return dtype;
    throw UserError("unknown dtype '{}'; known are f64, f32, bf16, i64, i32, u8", name);
}

}  // namespace cleave
