// Fused attention, forward and backward, beside the materialised one and beside its own bound: the time of its seven
// products at the rate that oneDNN reaches on them in the same round, for the pairs that are seen. The three alternate,
// shown are medians over rounds of times and of ratios. As those products are thin, the last column is against the rate
// of a large square one.
// Thread rule: one rank's thread with its team.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "kernels/elementwise.h"
#include "materialised_attention.h"

namespace cleave::bench {

struct AttentionProblem {
    std::string name;
    std::int64_t b, t, h, g, d;
    std::int64_t window = 0;
    std::int64_t document = 0;  // its length; 0: one document
};

template <class T>
class AttentionComparison {
  public:
    explicit AttentionComparison(const AttentionProblem& problem)
        : problem_(problem),
          form_{.scale = 1 / std::sqrt(static_cast<double>(problem.d)),
                .window = problem.window,
                .documents = problem.document > 0} {
        const auto [name, b, t, h, g, d, window, document] = problem;
        for (const std::int64_t heads : {h, g, g, h, h, h, g, g}) {  // q k v do, o dq dk dv
            data_.push_back(buffer(b * t * heads * d * static_cast<std::int64_t>(sizeof(T))));
            views_.push_back(kernels::whole_view(data_.back().get(), dtype_of<T>(), {b, t, heads, d}));
            if (data_.size() <= 4)
                kernels::FillNormal(static_cast<std::uint64_t>(data_.size()), "x", 1.0)
                    .run({}, std::vector{views_.back()}, nullptr);
        }
        lse_ = buffer(b * h * t * 4);
        views_.push_back(kernels::whole_view(lse_.get(), DType::f32, {b, h, t}));
        first_ = buffer(b * t * 4);
        first_view_ = kernels::whole_view(first_.get(), DType::i32, {b, t});
        for (std::int64_t i = 0; document > 0 && i < b * t; ++i)
            first_view_.as<std::int32_t>()[i] = static_cast<std::int32_t>(i % t / document * document);
    }

    void print() {
        const kernels::AttentionShape shape(form_, views_[0], views_[1]);
        MaterialisedAttention<T> materialised(form_, shape, form_.documents ? &first_view_ : nullptr);
        const typename MaterialisedAttention<T>::Operands x{at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)};
        const double seen = seen_share(shape);
        constexpr std::int64_t kSide = 1024;
        BatchedProduct square({1, kSide, kSide, kSide, false, false}, dtype_of<T>(), dtype_of<T>());
        const Buffer a = buffer(kSide * kSide * 4), c = buffer(kSide * kSide * 4);
        std::vector<double> fused, other, products, gain, share, of_square;
        run_fused();
        constexpr double kBudget = 1.5;  // seconds
        const double begin = now();
        while (fused.size() < 3 || (now() - begin < kBudget && fused.size() < 200)) {
            fused.push_back(seconds([&] { run_fused(); }));
            other.push_back(seconds([&] {
                materialised.forward(x);
                materialised.backward(x);
            }));
            products.push_back(seconds([&] { materialised.products(x); }));
            const double square_rate = square.flops() / seconds([&] { square.run(a.get(), a.get(), c.get()); });
            gain.push_back(other.back() / fused.back());
            share.push_back(products.back() * seen / fused.back());
            of_square.push_back(materialised.product_flops() * seen / fused.back() / square_rate);
        }
        fmt::print("{:34} {:5} {:9.3f} {:9.3f} {:7.2f} {:7.2f} {:9.2f} {:9.1f} {:9.1f}\n", problem_.name,
                   name_of(dtype_of<T>()), median(fused) * 1e3, median(other) * 1e3, median(gain), median(share),
                   median(of_square), mebibytes(workspace_bytes_), mebibytes(materialised.bytes()));
        std::fflush(stdout);
    }

  private:
    static double now() {
        return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    }
    template <class F>
    static double seconds(F&& f) {
        const double begin = now();
        f();
        return now() - begin;
    }
    static double median(std::vector<double> values) {
        std::sort(values.begin(), values.end());
        return values[values.size() / 2];
    }
    static double mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

    T* at(std::size_t i) const { return static_cast<T*>(data_[i].get()); }

    double seen_share(const kernels::AttentionShape& shape) const {
        double pairs = 0;
        for (std::int64_t b = 0; b < shape.batch; ++b) {
            const kernels::KeyMask mask(shape, form_.documents ? &first_view_ : nullptr, b);
            for (std::int64_t t = 0; t < shape.queries; ++t) pairs += static_cast<double>(mask.end(t) - mask.begin(t));
        }
        return pairs / static_cast<double>(shape.batch * shape.queries * shape.keys);
    }

    void run_fused() {
        std::vector<kernels::View> forward{views_[0], views_[1], views_[2]};
        std::vector<kernels::View> backward{views_[3], views_[0], views_[1], views_[2], views_[4], views_[8]};
        if (form_.documents)
            for (auto* inputs : {&forward, &backward}) inputs->push_back(first_view_);
        launch(kernels::Attention(form_), forward, {views_[4], views_[8]});
        launch(kernels::AttentionBackward(form_), backward, {views_[5], views_[6], views_[7]});
    }
    void launch(const kernels::Kernel& kernel, const std::vector<kernels::View>& inputs,
                const std::vector<kernels::View>& outputs) {
        const std::int64_t bytes = kernel.workspace_bytes(inputs, outputs);
        if (bytes > workspace_bytes_) workspace_ = buffer(workspace_bytes_ = bytes);
        kernel.run(inputs, outputs, workspace_.get());
    }

    AttentionProblem problem_;
    kernels::AttentionForm form_;
    std::vector<Buffer> data_;
    std::vector<kernels::View> views_;  // q k v do o dq dk dv lse
    Buffer lse_, first_;
    kernels::View first_view_;
    Buffer workspace_;
    std::int64_t workspace_bytes_ = 0;
};

// The lines whose name contains `filter`.
inline void compare_attentions(const std::string& filter) {
    const std::vector<AttentionProblem> problems{{"attention 4x256 12 heads 64", 4, 256, 12, 12, 64},
                                                 {"attention 1x1024 12 heads 64", 1, 1024, 12, 12, 64},
                                                 {"attention 1x4096 12 heads 64", 1, 4096, 12, 12, 64},
                                                 {"attention 1x2048 8/2 heads 128", 1, 2048, 8, 2, 128},
                                                 {"attention 1x4096 window 2048", 1, 4096, 12, 12, 64, 2048},
                                                 {"attention 1x4096 window 512", 1, 4096, 12, 12, 64, 512},
                                                 {"attention 1x4096 documents of 512", 1, 4096, 12, 12, 64, 0, 512}};
    fmt::print("\nattention forward and backward, causal; share: of the time of its products at oneDNN's rate\n");
    fmt::print("{:34} {:5} {:>9} {:>9} {:>7} {:>7} {:>9} {:>9} {:>9}\n", "", "", "fused ms", "other ms", "gain",
               "share", "of square", "MiB", "other MiB");
    for (const AttentionProblem& problem : problems) {
        if (problem.name.find(filter) == std::string::npos) continue;
        AttentionComparison<float>(problem).print();
        AttentionComparison<bf16>(problem).print();
    }
}

}  // namespace cleave::bench
