// oneDNN's matrix product, some in pieces that it computes faster than the whole. A primitive costs some 100
// microseconds to make and a few to run, so each thread keeps those it has made, by problem and team size, with their
// memory objects: a launch sets pointers and runs.
#include <algorithm>
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

// A product, or a piece of one: the rows of its factors are those of the whole, and so are their distances in memory.
struct Piece {
    Gemm gemm;
    std::int64_t a_stride = gemm.a_transposed ? gemm.m : gemm.k;
    std::int64_t b_stride = gemm.b_transposed ? gemm.k : gemm.n;
    friend bool operator==(const Piece&, const Piece&) = default;
};

// Rows x columns with `stride` between rows, or, where it is stored transposed, between columns.
dnnl::memory::desc matrix(std::int64_t rows, std::int64_t columns, std::int64_t stride, bool transposed, DType dtype) {
    const dnnl::memory::dims strides = transposed ? dnnl::memory::dims{1, stride} : dnnl::memory::dims{stride, 1};
    return {{rows, columns}, type_of(dtype), strides};
}

dnnl::matmul::primitive_desc describe(const Piece& piece) {
    const Gemm& gemm = piece.gemm;
    const auto a = matrix(gemm.m, gemm.k, piece.a_stride, gemm.a_transposed, gemm.input);
    const auto b = matrix(gemm.k, gemm.n, piece.b_stride, gemm.b_transposed, gemm.input);
    const auto y = matrix(gemm.m, gemm.n, gemm.n, false, gemm.output);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (gemm.accumulate) {
        dnnl::post_ops sum;
        sum.append_sum(1.0F);
        attributes.set_post_ops(sum);
    }
    const dnnl::matmul::desc plain = gemm.bias
                                         ? dnnl::matmul::desc(a, b, matrix(1, gemm.n, gemm.n, false, gemm.input), y)
                                         : dnnl::matmul::desc(a, b, y);
    return {plain, attributes, cpu_engine()};
}

class Product {
  public:
    explicit Product(const Piece& piece) : Product(describe(piece)) {}

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
    Piece piece;
    int team;
    friend bool operator==(const Key&, const Key&) = default;
};

struct KeyHash {
    std::size_t operator()(const Key& key) const {
        const Gemm& g = key.piece.gemm;
        const auto flags = static_cast<std::uint64_t>(g.a_transposed) |
                           static_cast<std::uint64_t>(g.b_transposed) << 1 | static_cast<std::uint64_t>(g.bias) << 2 |
                           static_cast<std::uint64_t>(g.accumulate) << 3 | static_cast<std::uint64_t>(g.input) << 4 |
                           static_cast<std::uint64_t>(g.output) << 8 | static_cast<std::uint64_t>(key.team) << 12;
        std::uint64_t hash = flags;
        for (std::int64_t extent : {g.m, g.n, g.k, key.piece.a_stride, key.piece.b_stride})
            hash = (hash ^ static_cast<std::uint64_t>(extent)) * 0x9E3779B97F4A7C15u;
        return hash ^ (hash >> 32);
    }
};

Product& product_for(const Piece& piece) {
    thread_local std::unordered_map<Key, std::unique_ptr<Product>, KeyHash> products;
    std::unique_ptr<Product>& product = products[Key{piece, team_size()}];
    if (!product) product = std::make_unique<Product>(piece);
    return *product;
}

// Extents beyond which oneDNN 2.6 slows down where `cut_m` or `cut_k` is true (a vocabulary's, measured with 50257 on
// Zen 4: 300 to 400 and 140 to 200 GFLOP/s on two cores).
constexpr std::int64_t kLongest = 8192;

bool cut_m(const Gemm& gemm) {
    return gemm.input == DType::bf16 && gemm.a_transposed && !gemm.b_transposed && gemm.m > kLongest;
}
// The sum is then taken in pieces, in ascending order, which f32 alone can keep between them.
bool cut_k(const Gemm& gemm) {
    return gemm.input == DType::f32 && !gemm.a_transposed && !gemm.b_transposed && gemm.k > kLongest;
}

// Calls f(piece, begin) for each piece of the product in order; `begin`: where it lies along the extent that is cut.
template <class F>
void for_each_piece(const Gemm& gemm, F&& f) {
    const bool rows = cut_m(gemm);
    const std::int64_t extent = rows ? gemm.m : gemm.k;
    const std::int64_t longest = rows || cut_k(gemm) ? kLongest : extent;
    for (std::int64_t begin = 0; begin < extent; begin += longest) {
        Piece piece{gemm};
        (rows ? piece.gemm.m : piece.gemm.k) = std::min(longest, extent - begin);
        if (!rows && begin > 0) {
            piece.gemm.bias = false;
            piece.gemm.accumulate = true;
        }
        f(piece, begin);
    }
}

GemmOperands operands_of_piece(const Gemm& gemm, std::int64_t begin, const GemmOperands& operands) {
    if (begin == 0) return operands;
    const auto in = [&](const void* base, std::int64_t elements) {
        return static_cast<const std::byte*>(base) + elements * size_of(gemm.input);
    };
    if (cut_m(gemm))
        return {in(operands.a, begin), operands.b, operands.bias,
                static_cast<std::byte*>(operands.y) + begin * gemm.n * size_of(gemm.output)};
    return {in(operands.a, begin), in(operands.b, begin * gemm.n), nullptr, operands.y};
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
    std::int64_t most = 0;
    if (!empty(gemm))
        for_each_piece(gemm, [&](const Piece& piece, std::int64_t) {
            most = std::max(most, product_for(piece).workspace_bytes());
        });
    return most;
}

void onednn_gemm(const Gemm& gemm, const GemmOperands& operands, void* workspace) {
    if (gemm.m == 0 || gemm.n == 0) return;
    if (empty(gemm)) return fill_empty(gemm, operands);
    for_each_piece(gemm, [&](const Piece& piece, std::int64_t begin) {
        product_for(piece).run(operands_of_piece(gemm, begin, operands), workspace);
    });
}

}  // namespace cleave::kernels
