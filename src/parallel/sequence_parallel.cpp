#include "parallel/sequence_parallel.h"

namespace cleave {

void add_sequence_parallelism(ModelLayouts& layouts, bool gather_again) {
    constexpr int kSequence = 1;  // of [b t c]
    layouts.stream = along(layouts.stream, layouts.cut_axes, S(kSequence));
    layouts.stream_parameter = along(layouts.stream_parameter, layouts.cut_axes, R);
    layouts.gather_again = gather_again;
}

}  // namespace cleave
