#include "engine/exchange.h"

#include <algorithm>
#include <cstring>

namespace cleave {

namespace {

Box box_of(const Tensor& tensor, const Mesh& mesh, int rank) {
    return local_ranges(tensor.shape(), tensor.layout(), mesh, rank);
}

}  // namespace

Box intersection(const Box& a, const Box& b) {
    Box result(a.size());
    for (std::size_t d = 0; d < a.size(); ++d) {
        result[d].begin = std::max(a[d].begin, b[d].begin);
        result[d].end = std::max(result[d].begin, std::min(a[d].end, b[d].end));
    }
    return result;
}

std::int64_t volume(const Box& box) {
    std::int64_t elements = 1;
    for (const Range& range : box) elements *= range.length();
    return elements;
}

void copy_box(const void* source, const Box& source_box, void* target, const Box& target_box, const Box& box,
              std::int64_t element_bytes) {
    if (volume(box) == 0) return;
    const std::size_t rank = box.size();
    // Inner dims that are whole in both pieces are one run of memory.
    std::size_t split = rank;
    std::int64_t run = element_bytes;
    while (split > 0) {
        --split;
        run *= box[split].length();
        if (box[split] != source_box[split] || box[split] != target_box[split]) break;
    }
    auto offset_in = [&](const Box& piece, const std::vector<std::int64_t>& index) {
        std::int64_t offset = 0;
        for (std::size_t d = 0; d < rank; ++d)
            offset = offset * piece[d].length() + ((d < split ? index[d] : box[d].begin) - piece[d].begin);
        return offset * element_bytes;
    };
    std::vector<std::int64_t> index(split);
    for (std::size_t d = 0; d < split; ++d) index[d] = box[d].begin;
    for (;;) {
        std::memcpy(static_cast<std::byte*>(target) + offset_in(target_box, index),
                    static_cast<const std::byte*>(source) + offset_in(source_box, index),
                    static_cast<std::size_t>(run));
        std::size_t d = split;
        while (d > 0 && ++index[d - 1] == box[d - 1].end) {
            index[d - 1] = box[d - 1].begin;
            --d;
        }
        if (d == 0) return;
    }
}

comm::Spec spec_of(const Exchange& exchange, const Mesh& mesh, int rank) {
    const std::vector<int> group = mesh.group(rank, exchange.axes);
    comm::Spec spec;
    spec.size = static_cast<int>(group.size());
    switch (exchange.action) {
        case Action::all_reduce:
            spec.operation = comm::Operation::all_reduce;
            spec.counts = {exchange.input.view().elements()};
            break;
        case Action::all_gather:
            spec.operation = comm::Operation::all_gather;
            for (int peer : group) spec.counts.push_back(volume(box_of(exchange.input, mesh, peer)));
            break;
        case Action::reduce_scatter:
            spec.operation = comm::Operation::reduce_scatter;
            for (int peer : group) spec.counts.push_back(volume(box_of(exchange.output, mesh, peer)));
            break;
        case Action::all_to_all:
            spec.operation = comm::Operation::all_to_all;
            for (int from : group)
                for (int to : group)
                    spec.counts.push_back(
                        volume(intersection(box_of(exchange.input, mesh, from), box_of(exchange.output, mesh, to))));
            break;
        default: CLEAVE_CHECK(false, "{} is no collective", name_of(exchange.action));
    }
    return spec;
}

bool needs_packing(const Exchange& exchange) {
    if (exchange.action == Action::all_to_all) return true;
    if (exchange.action == Action::all_gather) return exchange.output.local_shape().product(0, exchange.from.dim) != 1;
    if (exchange.action == Action::reduce_scatter) return exchange.input.local_shape().product(0, exchange.to.dim) != 1;
    return false;
}

void pack(const Exchange& exchange, const Mesh& mesh, int rank) {
    if (!exchange.send) return;
    const Box own = box_of(exchange.input, mesh, rank);
    const std::int64_t size = size_of(exchange.input.dtype());
    auto* to = static_cast<std::byte*>(exchange.send.view().data);
    for (int peer : mesh.group(rank, exchange.axes)) {
        const Box piece = intersection(own, box_of(exchange.output, mesh, peer));
        copy_box(exchange.input.view().data, own, to, piece, piece, size);
        to += volume(piece) * size;
    }
}

void unpack(const Exchange& exchange, const Mesh& mesh, int rank) {
    if (!exchange.receive) return;
    const Box own = box_of(exchange.output, mesh, rank);
    const std::int64_t size = size_of(exchange.output.dtype());
    const auto* from = static_cast<const std::byte*>(exchange.receive.view().data);
    for (int peer : mesh.group(rank, exchange.axes)) {
        const Box piece = intersection(box_of(exchange.input, mesh, peer), own);
        copy_box(from, piece, exchange.output.view().data, own, piece, size);
        from += volume(piece) * size;
    }
}

void run_local_action(const Exchange& exchange, const Mesh& mesh, int rank) {
    const kernels::View& out = exchange.output.view();
    const bool first = mesh.joint_coordinate(rank, exchange.axes) == 0;
    const bool keeps = exchange.action != Action::keep_first || first;
    if (exchange.action == Action::zero_pad || !keeps) std::memset(out.data, 0, static_cast<std::size_t>(out.bytes()));
    if (!keeps) return;
    const Box source = box_of(exchange.input, mesh, rank);
    const Box target = box_of(exchange.output, mesh, rank);
    copy_box(exchange.input.view().data, source, out.data, target, intersection(source, target), size_of(out.dtype));
}

}  // namespace cleave
