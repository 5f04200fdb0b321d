#include "model/key_value_cache.h"

#include "kernels/elementwise.h"

namespace cleave {

namespace {

constexpr int kSequence = 1;  // the dim of tokens

}  // namespace

Tensor KeyValueCache::alloc_like(const Tensor& rows) {
    Shape shape = rows.shape();
    shape[kSequence] = capacity_;
    return engine_.alloc(rows.name() + " cache", shape, rows.layout(), rows.dtype(), MemoryKind::activations);
}

KeyValueCache::KeysAndValues KeyValueCache::extend(const std::string& block, std::int64_t first_position,
                                                   const Tensor& keys, const Tensor& values) {
    const std::int64_t steps = keys.shape()[kSequence];
    CLEAVE_CHECK(first_position >= 0 && first_position + steps <= capacity_, "positions {} to {} of a cache for {}",
                 first_position, first_position + steps, capacity_);
    KeysAndValues& held = blocks_[block];
    if (!held.keys) held = {alloc_like(keys), alloc_like(values)};
    engine_.launch(kernels::Cast{}, {keys}, {held.keys.narrow(kSequence, first_position, steps)});
    engine_.launch(kernels::Cast{}, {values}, {held.values.narrow(kSequence, first_position, steps)});
    return {held.keys.narrow(kSequence, 0, first_position + steps),
            held.values.narrow(kSequence, 0, first_position + steps)};
}

}  // namespace cleave
