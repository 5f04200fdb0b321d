// Cross entropy as a differentiable function (engine/functions.h). Where the classes are cut over ranks the logits stay
// where they are: each rank gives two numbers a row (kernels/loss.h, ClassStatistics), which are gathered.
#include "engine/functions.h"
#include "kernels/elementwise.h"
#include "kernels/loss.h"

namespace cleave {

namespace {

struct LossAndLogSumExp {
    Tensor loss;
    Tensor lse;
};

// The axes that cut the last dim of the logits.
std::vector<AxisId> class_axes(const Tensor& logits) {
    std::vector<AxisId> axes;
    for (const auto& [axis, placement] : logits.layout())
        if (placement.is(Placement::Kind::S) && placement.dim == logits.shape().rank() - 1) axes.push_back(axis);
    return axes;
}

Layout with_all(Layout layout, const std::vector<AxisId>& axes, Placement placement) {
    for (AxisId axis : axes) layout.set(axis, placement);
    return layout;
}

LossAndLogSumExp forward(Engine& engine, const Tensor& logits, const Tensor& labels, const std::vector<AxisId>& axes,
                         double scale, std::string_view name) {
    const DType sums = accumulator_of(logits.dtype());
    const std::initializer_list<OutputSpec> specs{{name, {}, sums}, {"log-sum-exp", labels.shape(), sums}};
    if (axes.empty()) {
        auto outputs = engine.create(kernels::CrossEntropy{scale, kIgnoredLabel}, {logits, labels}, specs);
        return {outputs[0], outputs[1]};
    }
    Shape shape{1};
    for (AxisId axis : axes) shape[0] *= engine.mesh().size(axis);
    for (std::int64_t extent : labels.shape()) shape.push_back(extent);
    shape.push_back(2);
    const Tensor own =
        engine.create(kernels::ClassStatistics{kIgnoredLabel}, {logits, labels}, {"class statistics", shape, sums});
    const Tensor all = engine.transition(own, with_all(own.layout(), axes, I));
    auto outputs = engine.create(kernels::CrossEntropyOfPieces{scale, kIgnoredLabel}, {all, labels}, specs);
    return {outputs[0], outputs[1]};
}

}  // namespace

Tensor cross_entropy(Tape& tape, const Tensor& logits, const Tensor& labels, double scale, std::string_view name) {
    return cross_entropy(tape, logits, labels, scale, 0, name).objective;
}

Loss cross_entropy(Tape& tape, const Tensor& logits, const Tensor& labels, double scale, double z_loss,
                   std::string_view name) {
    Engine& engine = tape.engine();
    const std::vector<AxisId> axes = class_axes(logits);
    const auto [entropy, lse] = forward(engine, logits, labels, axes, scale, name);
    Loss loss{entropy, entropy, {}};
    if (z_loss != 0) {
        loss.z_loss =
            engine.create(kernels::ZLoss{z_loss * scale, kIgnoredLabel}, {lse, labels}, {"z-loss", {}, lse.dtype()});
        loss.objective =
            engine.create(kernels::Add{}, {loss.cross_entropy, loss.z_loss}, {"objective", {}, lse.dtype()});
    }
    if (!tape.recording()) return loss;
    tape.record({loss.objective},
                [&tape, &engine, axes, scale, z_loss, logits, labels, lse = lse](std::span<const Tensor> gradients) {
                    // Every rank could compute the gradient of all logits (I) and keep its slice: it computes the slice
                    // alone.
                    const auto whole = [&](const Tensor& x) { return x.relabelled(with_all(x.layout(), axes, R)); };
                    Tensor in_place = logits.relabelled(logits.layout().dual());
                    engine.launch(kernels::CrossEntropyBackward{scale, kIgnoredLabel, z_loss},
                                  {whole(gradients[0]), logits, whole(lse), labels}, {in_place});
                    tape.add_gradient(Tape::ref(logits), std::move(in_place));
                });
    return loss;
}

}  // namespace cleave
