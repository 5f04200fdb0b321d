// Rows of token ids and what is to be predicted at each.
// Thread rule: a value.
#pragma once

#include <cstdint>
#include <vector>

namespace cleave {

// Some rows of a global batch: one rank's, in one forward pass. Row-major [rows, context].
struct Samples {
    std::int64_t first_row = 0;  // of these, in the global batch
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> labels;  // kIgnoredLabel: masked
    // The first token of its row that each one sees, that of its document or of the row; empty: of the row.
    std::vector<std::int32_t> first_visible = {};

    // Of samples for the virtual engine, which reads none, only the number of tokens is known: the lists are empty.
    std::int64_t tokens_counted = 0;
    bool first_visible_counted = false;

    std::int64_t size() const { return tokens_counted > 0 ? tokens_counted : static_cast<std::int64_t>(tokens.size()); }

    void clear() {
        tokens.clear();
        labels.clear();
        first_visible.clear();
    }
};

}  // namespace cleave
