#include "train/evaluate.h"

#include "kernels/elementwise.h"

namespace cleave {

double evaluate(Engine& engine, Transformer& model, std::int64_t batches,
                const std::function<const Samples&(std::int64_t)>& draw, std::int64_t labels) {
    CLEAVE_CHECK(batches > 0 && labels > 0);
    const double scale = 1.0 / static_cast<double>(labels);
    Tensor sum;
    std::int64_t counted = 0;
    for (std::int64_t batch = 0; batch < batches; ++batch) {
        const Samples& samples = draw(batch);
        counted += unmasked_labels(samples);
        Tape tape(engine, false);
        const Tensor loss = model.loss(tape, write_samples(engine, model, "tokens", samples.tokens),
                                       write_samples(engine, model, "labels", samples.labels), scale,
                                       write_context(engine, model, samples));
        if (sum)
            engine.launch(kernels::Accumulate{}, {loss}, {sum});
        else
            sum = engine.create(kernels::Cast{}, {loss}, {"loss sum", {}, DType::f64});  // of many small terms
    }
    const double loss = read_over_stages(engine, engine.transition(sum, summed(sum.layout())));
    const std::int64_t all = sum_over_batch(engine, model.layouts().tokens, counted, labels);
    if (all == 0)
        throw UserError(
            "evaluation: every label of its {} batches is masked; accepted: a larger train.evaluate_batches, or a "
            "data.mask with more labels",
            batches);
    return loss * (static_cast<double>(labels) / static_cast<double>(all));
}

}  // namespace cleave
