#include "cli/product_text.h"

#include <fmt/format.h>

namespace cleave::cli {

namespace {

std::string form_of(const kernels::Gemm& gemm) {
    return fmt::format("{}{}", gemm.a_transposed ? 't' : 'n', gemm.b_transposed ? 't' : 'n');
}

}  // namespace

std::string product_text(const kernels::Gemm& gemm) {
    std::string text = fmt::format("{} x {} x {} {} {}", gemm.m, gemm.n, gemm.k, form_of(gemm), name_of(gemm.input));
    if (gemm.output != gemm.input) text += fmt::format(" -> {}", name_of(gemm.output));
    if (gemm.bias) text += " + bias";
    if (gemm.accumulate) text += " +=";
    return text;
}

Json product_json(const kernels::Gemm& gemm) {
    return Json{{"m", gemm.m},
                {"n", gemm.n},
                {"k", gemm.k},
                {"form", form_of(gemm)},
                {"bias", gemm.bias},
                {"accumulate", gemm.accumulate},
                {"dtype", name_of(gemm.input)},
                {"output_dtype", name_of(gemm.output)}};
}

}  // namespace cleave::cli
