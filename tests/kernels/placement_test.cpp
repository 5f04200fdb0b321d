// Kernels and their placement rules. For every kernel and every combination of placements of its inputs along one axis
// of 1 to 4 ranks: the signature refuses, or every rank's kernel on its piece, put together by the derived placements,
// gives the global result. And the backward kernels accept the duals and give the duals.
#include <gtest/gtest.h>

#include "cases.h"
#include "kernels/embedding.h"
#include "kernels/loss.h"

namespace cleave::kernels::test {
namespace {

using Kind = Placement::Kind;

// Everything that the input could be placed as; cuts that leave a rank without elements are no placements.
std::vector<Placement> placements_of(const Shape& shape, int ranks) {
    std::vector<Placement> all{R, I, P};
    for (int d = 0; d < shape.rank(); ++d)
        if (shape[d] >= ranks) all.push_back(S(d));
    return all;
}

std::int64_t global_index(const Shape& shape, const std::vector<Range>& ranges, std::int64_t local) {
    std::int64_t index = 0, stride = 1;
    for (int d = shape.rank() - 1; d >= 0; --d) {
        const Range& range = ranges[static_cast<std::size_t>(d)];
        index += (range.begin + local % range.length()) * stride;
        local /= range.length();
        stride *= shape[d];
    }
    return index;
}

// The pieces of a tensor on the ranks of one axis.
class Placed {
  public:
    Placed(const Mesh& mesh, const Shape& shape, Placement placement)
        : mesh_(mesh), shape_(shape), placement_(placement), layout_{{0, placement}} {}

    const Layout& layout() const { return layout_; }

    // This rank's piece of `global`; a partial tensor's terms are random and sum to it.
    Tensor piece(const OperandCase& operand, int rank) const {
        const Array& global = operand.values;
        const auto ranges = local_ranges(shape_, layout_, mesh_, rank);
        Array local(local_shape(shape_, layout_, mesh_, rank));
        for (std::int64_t i = 0; i < local.size(); ++i) {
            const std::int64_t g = global_index(shape_, ranges, i);
            local[i] = placement_.is(Kind::P) ? term(global, g, rank) : global[g];
        }
        Tensor tensor(local, dtype_of_role(operand.role, DType::f64));
        tensor.view().global = shape_;
        for (int d = 0; d < shape_.rank(); ++d) tensor.view().offset[d] = ranges[static_cast<std::size_t>(d)].begin;
        return tensor;
    }

    // The whole of the pieces. Fails where replicas differ.
    Array whole(const std::vector<Array>& pieces) const {
        Array result(shape_);
        for (int rank = 0; rank < mesh_.world_size(); ++rank) {
            const Array& local = pieces[static_cast<std::size_t>(rank)];
            const auto ranges = local_ranges(shape_, layout_, mesh_, rank);
            for (std::int64_t i = 0; i < local.size(); ++i) {
                double& target = result[global_index(shape_, ranges, i)];
                if (placement_.is(Kind::P))
                    target += local[i];
                else if (rank > 0 && !placement_.is(Kind::S))
                    EXPECT_EQ(target, local[i]) << "replicas differ on rank " << rank;
                else
                    target = local[i];
            }
        }
        return result;
    }

  private:
    double term(const Array& global, std::int64_t g, int rank) const {
        const RandomStream random(11, "terms");
        auto draw = [&](int r) { return random.normal(static_cast<std::uint64_t>(g * 8 + r)); };
        if (rank > 0) return draw(rank);
        double rest = global[g];
        for (int r = 1; r < mesh_.world_size(); ++r) rest -= draw(r);
        return rest;
    }
    const Mesh& mesh_;
    Shape shape_;
    Placement placement_;
    Layout layout_;
};

std::vector<Signature::Operand> operands_of(const std::vector<Shape>& shapes, const std::vector<Layout>& layouts) {
    std::vector<Signature::Operand> operands;
    for (std::size_t i = 0; i < shapes.size(); ++i) operands.push_back({&shapes[i], &layouts[i]});
    return operands;
}

// Calls f(placements) for every combination of placements of the inputs.
template <class F>
void each_combination(const std::vector<OperandCase>& inputs, int ranks, F&& f) {
    std::vector<std::vector<Placement>> choices;
    for (const OperandCase& input : inputs) choices.push_back(placements_of(input.values.shape, ranks));
    std::vector<std::size_t> at(inputs.size(), 0);
    while (true) {
        std::vector<Placement> placements;
        for (std::size_t i = 0; i < at.size(); ++i) placements.push_back(choices[i][at[i]]);
        f(placements);
        std::size_t i = 0;
        while (i < at.size() && ++at[i] == choices[i].size()) at[i++] = 0;
        if (i == at.size()) return;
    }
}

// Hundreds of thousands of combinations are tried on 2 ranks alone, the others on up to 4.
int most_ranks(const std::vector<OperandCase>& inputs) {
    std::size_t combinations = 1;
    for (const OperandCase& input : inputs) combinations *= placements_of(input.values.shape, 2).size();
    return combinations > 100'000 ? 2 : 4;
}

struct Derived {
    std::vector<Shape> shapes;  // of the inputs
    std::vector<Layout> layouts;
    Signature::Result result;
};

Derived derive(const Kernel& kernel, const std::vector<OperandCase>& inputs, const std::vector<Placement>& placements,
               const Mesh& mesh) {
    Derived derived;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        derived.shapes.push_back(inputs[i].values.shape);
        derived.layouts.push_back(Layout{{0, placements[i]}});
    }
    derived.result = kernel.signature().apply(operands_of(derived.shapes, derived.layouts), mesh);
    return derived;
}

std::string describe(const Case& c, const std::vector<Placement>& placements, int ranks) {
    std::string text = fmt::format("{} on {} ranks:", c.name, ranks);
    for (Placement p : placements) text += fmt::format(" {}", to_string(p));
    return text;
}

// Runs every rank's piece; returns the outputs put together.
std::vector<Array> run_placed(const Case& c, const std::vector<Placement>& placements,
                              const std::vector<Layout>& outputs, const Mesh& mesh) {
    std::vector<Placed> placed;
    for (std::size_t o = 0; o < outputs.size(); ++o)
        placed.emplace_back(mesh, c.outputs[o].values.shape, outputs[o].at(0));
    std::vector<std::vector<Array>> pieces(outputs.size());
    for (int rank = 0; rank < mesh.world_size(); ++rank) {
        std::vector<Tensor> in, out;
        for (std::size_t i = 0; i < placements.size(); ++i)
            in.push_back(Placed(mesh, c.inputs[i].values.shape, placements[i]).piece(c.inputs[i], rank));
        for (std::size_t o = 0; o < outputs.size(); ++o) out.push_back(placed[o].piece(c.outputs[o], rank));
        launch(*c.kernel, in, out);
        for (std::size_t o = 0; o < outputs.size(); ++o) pieces[o].push_back(out[o].values());
    }
    std::vector<Array> whole;
    for (std::size_t o = 0; o < outputs.size(); ++o) whole.push_back(placed[o].whole(pieces[o]));
    return whole;
}

TEST(Placement, EveryAcceptedCombinationGivesTheGlobalResult) {
    const OneThread one_thread;
    for (const Case& c : all_cases(false)) {
        std::vector<Array> inputs, before;
        for (const auto& input : c.inputs) inputs.push_back(input.values);
        for (const auto& output : c.outputs) before.push_back(output.values);
        const auto expected = c.reference(inputs, before);
        int cuts = 0;
        for (int ranks = 1; ranks <= most_ranks(c.inputs); ++ranks) {
            const Mesh mesh({{"tp", ranks}});
            each_combination(c.inputs, ranks, [&](const std::vector<Placement>& placements) {
                const auto [refused, layouts] = [&] {
                    const Derived derived = derive(*c.kernel, c.inputs, placements, mesh);
                    const auto& outputs = derived.result.outputs;
                    return std::pair(derived.result.refused, std::vector<Layout>(outputs.begin(), outputs.end()));
                }();
                if (!refused.empty()) return;
                // One entry a piece, where the whole has one: CrossEntropyOfCutClasses judges it.
                if (c.name == "class_statistics" && layouts[0].at(0) == S(0)) return;
                SCOPED_TRACE(describe(c, placements, ranks));
                for (Placement p : placements) cuts += p.is(Kind::S);
                const auto result = run_placed(c, placements, layouts, mesh);
                for (std::size_t o = 0; o < result.size(); ++o) {
                    const double unit = c.outputs[o].role == Role::copy ? 0x1p-8 : 1e-12;
                    for (std::int64_t i = 0; i < result[o].size(); ++i)
                        ASSERT_NEAR(result[o][i], expected[o][i], unit * std::max(1.0, std::abs(expected[o][i])) * 10)
                            << "output " << o << " at " << i;
                }
            });
            const auto accepts_all = [&](Placement p) {
                return derive(*c.kernel, c.inputs, std::vector(c.inputs.size(), p), mesh).result.refused.empty();
            };
            EXPECT_TRUE(accepts_all(R) && accepts_all(I)) << c.name;
        }
        EXPECT_GT(cuts, 0) << c.name << " accepts no cut";
    }
}

TEST(Placement, BackwardKernelsAcceptTheDualsAndGiveTheDuals) {
    for (const Pair& pair : all_pairs()) {
        const Case& c = pair.forward;
        for (int ranks = 2; ranks <= most_ranks(c.inputs); ++ranks) {
            const Mesh mesh({{"tp", ranks}});
            each_combination(c.inputs, ranks, [&](const std::vector<Placement>& placements) {
                const Derived derived = derive(*c.kernel, c.inputs, placements, mesh);
                if (!derived.result.refused.empty()) return;
                SCOPED_TRACE(describe(c, placements, ranks));
                for (const Backward& backward : pair.backward) {
                    std::vector<Shape> shapes;
                    std::vector<Layout> layouts;
                    for (const auto& [kind, index] : backward.inputs) {
                        const Layout of_output = kind == Source::input ? Layout{} : derived.result.outputs[index];
                        shapes.push_back(kind == Source::input ? derived.shapes[index] : c.outputs[index].values.shape);
                        layouts.push_back(kind == Source::input      ? derived.layouts[index]
                                          : kind == Source::gradient ? of_output.dual()
                                                                     : of_output);
                    }
                    const auto result = backward.kernel->signature().apply(operands_of(shapes, layouts), mesh);
                    ASSERT_EQ(result.refused, "") << backward.kernel->name();
                    for (std::size_t o = 0; o < backward.gradient_of.size(); ++o) {
                        const Placement expected = dual(placements[backward.gradient_of[o]]);
                        const Placement found = result.outputs[o].at(0);
                        // R may be kept as a slice where the kernel computes what is there.
                        EXPECT_TRUE(backward.kernel->signature().accepts(o, result.outputs[o], Layout{{0, expected}}))
                            << backward.kernel->name() << " output " << o << ": " << to_string(found) << " not "
                            << to_string(expected);
                    }
                }
            });
        }
    }
}

// Classes cut over 2 to 4 ranks, unevenly: statistics of the pieces give the loss of the whole.
TEST(Placement, StatisticsOfCutClassesGiveTheCrossEntropy) {
    const std::int64_t rows = 9, classes = 11, ignore = 3;
    const OperandCase logits{normal({rows, classes}, "logits")};
    const Array labels = integers({rows}, "labels", classes);
    const auto tensors = [](std::initializer_list<std::pair<Array, DType>> all) {
        std::vector<Tensor> made;
        for (const auto& [array, dtype] : all) made.emplace_back(array, dtype);
        return made;
    };
    const Array scalar(Shape{}), by_row({rows});
    auto whole_in = tensors({{logits.values, DType::f64}, {labels, DType::i32}});
    auto whole_out = tensors({{scalar, DType::f64}, {by_row, DType::f64}});
    launch(CrossEntropy(0.5, ignore), whole_in, whole_out);
    for (int ranks = 2; ranks <= 4; ++ranks) {
        const Mesh mesh({{"tp", ranks}});
        const Placed placed(mesh, {rows, classes}, S(1));
        Array all({ranks, rows, 2});
        for (int rank = 0; rank < ranks; ++rank) {
            std::vector<Tensor> in;
            in.push_back(placed.piece(logits, rank));
            in.emplace_back(labels, DType::i32);
            auto out = tensors({{Array({1, rows, 2}), DType::f64}});
            launch(ClassStatistics(ignore), in, out);
            const Array own = out[0].values();
            for (std::int64_t i = 0; i < own.size(); ++i) all[rank * own.size() + i] = own[i];
        }
        auto in = tensors({{all, DType::f64}, {labels, DType::i32}});
        auto out = tensors({{scalar, DType::f64}, {by_row, DType::f64}});
        launch(CrossEntropyOfPieces(0.5, ignore), in, out);
        EXPECT_NEAR(out[0].values()[0], whole_out[0].values()[0], 1e-13);
        for (std::int64_t r = 0; r < rows; ++r) EXPECT_NEAR(out[1].values()[r], whole_out[1].values()[r], 1e-13);
    }
}

TEST(Placement, EmbeddingBackwardComputesASliceOfTheVocabulary) {
    const std::int64_t rows = 12, vocabulary = 7, width = 3;
    const OperandCase tokens{integers({rows}, "tokens", vocabulary), Role::tokens};
    const OperandCase dy{normal({rows, width}, "dy")};
    Array expected({vocabulary, width});
    for (std::int64_t i = 0; i < rows * width; ++i)
        expected[static_cast<std::int64_t>(tokens.values[i / width]) * width + i % width] += dy.values[i];
    const Mesh mesh({{"tp", 3}});
    const Placed placed(mesh, {vocabulary, width}, S(0));
    std::vector<Array> pieces;
    for (int rank = 0; rank < 3; ++rank) {
        std::vector<Tensor> in, out;
        in.emplace_back(tokens.values, DType::i32);
        in.emplace_back(dy.values, DType::f64);
        out.push_back(placed.piece({Array({vocabulary, width})}, rank));
        launch(EmbeddingBackward{}, in, out);
        pieces.push_back(out[0].values());
    }
    const Array whole = placed.whole(pieces);
    for (std::int64_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(whole[i], expected[i], 1e-14);
}

}  // namespace
}  // namespace cleave::kernels::test
