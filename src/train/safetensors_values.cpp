#include "train/safetensors_values.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/team.h"

namespace cleave {

namespace {

constexpr std::int64_t kGrain = 1 << 18;  // elements that are worth a thread

// The value of an IEEE half: 1 sign, 5 exponent (bias 15), 10 mantissa bits.
float half_value(std::uint16_t bits) {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7fffu) << 13;
    // As an f32 whose exponent is 112 too small, which a product corrects, also that of a denormal.
    if (magnitude < 0x0f800000u)
        return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F));
    return std::bit_cast<float>(sign | 0x7f800000u | magnitude);  // infinity and what is no number
}

struct F16 {
    std::uint16_t bits;
};

double value(double stored) {
    return stored;
}
float value(float stored) {
    return stored;
}
float value(bf16 stored) {
    return static_cast<float>(stored);
}
float value(F16 stored) {
    return half_value(stored.bits);
}

template <class To>
To rounded(double value) {
    if constexpr (std::is_same_v<To, bf16>)
        return bf16(static_cast<float>(value));
    else
        return static_cast<To>(value);
}
template <class To>
To rounded(float value) {
    return static_cast<To>(value);
}

template <class From, class To>
void convert(const std::byte* bytes, std::int64_t count, To* destination) {
    constexpr bool kSame = std::is_same_v<From, To>;
    kernels::parallel_for(count, kGrain, [=](std::int64_t begin, std::int64_t end) {
        if constexpr (kSame) {
            std::memcpy(destination + begin, bytes + begin * static_cast<std::int64_t>(sizeof(To)),
                        static_cast<std::size_t>(end - begin) * sizeof(To));
        } else {
            for (std::int64_t i = begin; i < end; ++i) {
                From stored;  // a file need not align it
                std::memcpy(&stored, bytes + i * static_cast<std::int64_t>(sizeof(From)), sizeof(From));
                destination[i] = rounded<To>(value(stored));
            }
        }
    });
}

}  // namespace

std::optional<StoredType> stored_type(std::string_view name) {
    for (const StoredType& type : kStoredTypes)
        if (type.name == name) return type;
    return std::nullopt;
}

bool is_readable(const StoredType& type) {
    return type.name == "F32" || type.name == "BF16" || type.name == "F16" || type.name == "F64";
}

StoredType stored_as(DType dtype) {
    CLEAVE_CHECK(is_float(dtype));
    return *stored_type(dtype == DType::f64 ? "F64" : dtype == DType::f32 ? "F32" : "BF16");
}

void convert_values(const StoredType& from, std::span<const std::byte> bytes, DType to, void* destination) {
    CLEAVE_CHECK(is_readable(from), "{}", from.name);
    const std::int64_t count = static_cast<std::int64_t>(bytes.size()) * 8 / from.bits;
    dispatch_float(to, [&]<class T>(T) {
        T* values = static_cast<T*>(destination);
        if (from.name == "F32") return convert<float>(bytes.data(), count, values);
        if (from.name == "BF16") return convert<bf16>(bytes.data(), count, values);
        if (from.name == "F16") return convert<F16>(bytes.data(), count, values);
        return convert<double>(bytes.data(), count, values);
    });
}

}  // namespace cleave
