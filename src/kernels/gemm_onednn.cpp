// oneDNN's matrix product. A primitive costs some 100 microseconds to make and a few to run, so each thread keeps those
// it has made, by problem and team size, with their memory objects: a launch sets pointers and runs.
#include <array>
#include <cstring>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "kernels/gemm.h"
#include "kernels/team.h"

namespace cleave::kernels {

namespace {

const dnnl::engine& cpu_engine() {
    static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    return engine;
}

dnnl::memory::data_type type_of(DType dtype) {
    CLEAVE_CHECK(dtype == DType::f32 || dtype == DType::bf16, "a oneDNN product of {}", name_of(dtype));
    return dtype == DType::f32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

// Row-major rows x columns; where it is stored transposed, by strides.
dnnl::memory::desc matrix(std::int64_t rows, std::int64_t columns, bool transposed, DType dtype) {
    const dnnl::memory::dims strides = transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{columns, 1};
    return {{rows, columns}, type_of(dtype), strides};
}

dnnl::matmul::primitive_desc describe(const Gemm& gemm) {
    const auto a = matrix(gemm.m, gemm.k, gemm.a_transposed, gemm.input);
    const auto b = matrix(gemm.k, gemm.n, gemm.b_transposed, gemm.input);
    const auto y = matrix(gemm.m, gemm.n, false, gemm.output);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (gemm.accumulate) {
        dnnl::post_ops sum;
        sum.append_sum(1.0F);
        attributes.set_post_ops(sum);
    }
    const dnnl::matmul::desc plain =
        gemm.bias ? dnnl::matmul::desc(a, b, matrix(1, gemm.n, false, gemm.input), y) : dnnl::matmul::desc(a, b, y);
    return {plain, attributes, cpu_engine()};
}

class Product {
  public:
    explicit Product(const Gemm& gemm) : Product(describe(gemm)) {}

    std::int64_t workspace_bytes() const { return workspace_bytes_; }

    void run(const GemmOperands& operands, void* workspace) {
        a_.set_data_handle(const_cast<void*>(operands.a));
        b_.set_data_handle(const_cast<void*>(operands.b));
        y_.set_data_handle(operands.y);
        scratch_.set_data_handle(workspace);
        if (operands.bias) bias_.set_data_handle(const_cast<void*>(operands.bias));
        const std::array arguments{dnnl_exec_arg_t{DNNL_ARG_SRC, a_.get()}, dnnl_exec_arg_t{DNNL_ARG_WEIGHTS, b_.get()},
                                   dnnl_exec_arg_t{DNNL_ARG_DST, y_.get()},
                                   dnnl_exec_arg_t{DNNL_ARG_SCRATCHPAD, scratch_.get()},
                                   dnnl_exec_arg_t{DNNL_ARG_BIAS, operands.bias ? bias_.get() : nullptr}};
        const auto status =
            dnnl_primitive_execute(primitive_.get(), stream_.get(), operands.bias ? 5 : 4, arguments.data());
        CLEAVE_CHECK(status == dnnl_success, "oneDNN's matmul gave status {}", static_cast<int>(status));
    }

  private:
    explicit Product(const dnnl::matmul::primitive_desc& description)
        : primitive_(description),
          stream_(cpu_engine()),
          a_(description.src_desc(), cpu_engine(), nullptr),
          b_(description.weights_desc(), cpu_engine(), nullptr),
          bias_(description.bias_desc(), cpu_engine(), nullptr),
          y_(description.dst_desc(), cpu_engine(), nullptr),
          scratch_(description.scratchpad_desc(), cpu_engine(), nullptr),
          workspace_bytes_(static_cast<std::int64_t>((description.scratchpad_desc().get_size() + 63) / 64 * 64)) {}

    dnnl::matmul primitive_;
    dnnl::stream stream_;
    dnnl::memory a_, b_, bias_, y_, scratch_;
    std::int64_t workspace_bytes_;
};

struct Key {
    Gemm gemm;
    int team;
    friend bool operator==(const Key&, const Key&) = default;
};

struct KeyHash {
    std::size_t operator()(const Key& key) const {
        const Gemm& g = key.gemm;
        const auto flags = static_cast<std::uint64_t>(g.a_transposed) |
                           static_cast<std::uint64_t>(g.b_transposed) << 1 | static_cast<std::uint64_t>(g.bias) << 2 |
                           static_cast<std::uint64_t>(g.accumulate) << 3 | static_cast<std::uint64_t>(g.input) << 4 |
                           static_cast<std::uint64_t>(g.output) << 8 | static_cast<std::uint64_t>(key.team) << 12;
        std::uint64_t hash = flags;
        for (std::int64_t extent : {g.m, g.n, g.k})
            hash = (hash ^ static_cast<std::uint64_t>(extent)) * 0x9E3779B97F4A7C15u;
        return hash ^ (hash >> 32);
    }
};

Product& product_for(const Gemm& gemm) {
    thread_local std::unordered_map<Key, std::unique_ptr<Product>, KeyHash> products;
    std::unique_ptr<Product>& product = products[Key{gemm, team_size()}];
    if (!product) product = std::make_unique<Product>(gemm);
    return *product;
}

// oneDNN refuses or skips empty matrices; a sum over nothing is zero.
bool empty(const Gemm& gemm) {
    return gemm.m == 0 || gemm.n == 0 || gemm.k == 0;
}

void fill_empty(const Gemm& gemm, const GemmOperands& operands) {
    if (gemm.accumulate && !gemm.bias) return;
    CLEAVE_CHECK(!gemm.accumulate && !gemm.bias, "a product over no elements with bias");
    std::memset(operands.y, 0, static_cast<std::size_t>(gemm.m * gemm.n * size_of(gemm.output)));
}

}  // namespace

std::int64_t onednn_workspace_bytes(const Gemm& gemm) {
    return empty(gemm) ? 0 : product_for(gemm).workspace_bytes();
}

void onednn_gemm(const Gemm& gemm, const GemmOperands& operands, void* workspace) {
    if (gemm.m == 0 || gemm.n == 0) return;
    if (empty(gemm)) return fill_empty(gemm, operands);
    product_for(gemm).run(operands, workspace);
}

}  // namespace cleave::kernels
