#include "comm/mpi_native.h"

#include <limits>
#include <numeric>

#include "base/error.h"
#include "comm/combine.h"
#include "comm/mpi_session.h"

namespace cleave::comm {
namespace {

std::vector<int> all_but(int size, int rank) {
    std::vector<int> ranks;
    for (int r = 0; r < size; ++r)
        if (r != rank) ranks.push_back(r);
    return ranks;
}

// bf16 is unknown to MPI: it is reduced as f32 and moved as two bytes.
MPI_Datatype type_of(DType dtype) {
    switch (dtype) {
        case DType::f64: return MPI_DOUBLE;
        case DType::f32: return MPI_FLOAT;
        case DType::bf16: return MPI_UINT16_T;
        case DType::i64: return MPI_INT64_T;
        case DType::i32: return MPI_INT32_T;
        case DType::u8: return MPI_UINT8_T;
    }
    return MPI_DATATYPE_NULL;
}

void add_bytes(void* in, void* in_out, int* count, MPI_Datatype*) {
    const auto* a = static_cast<const std::uint8_t*>(in);
    auto* b = static_cast<std::uint8_t*>(in_out);
    for (int i = 0; i < *count; ++i) b[i] = static_cast<std::uint8_t>(a[i] + b[i]);
}

MPI_Op op_of(ReduceOp op, DType dtype) {
    if (op == ReduceOp::max) return MPI_MAX;
    if (op == ReduceOp::min) return MPI_MIN;
    if (dtype != DType::u8) return MPI_SUM;
    // Open MPI 4.1 adds bytes with saturation where it has AVX (200 + 100 = 255) and without it elsewhere.
    static const MPI_Op wrapping = [] {
        MPI_Op made = MPI_OP_NULL;
        check_mpi(MPI_Op_create(add_bytes, 1, &made), "MPI_Op_create");
        return made;
    }();
    return wrapping;
}

int narrow(std::int64_t count) {
    if (count > std::numeric_limits<int>::max())
        throw UserError("native takes at most {} elements, not {}; direct takes any number",
                        std::numeric_limits<int>::max(), count);
    return static_cast<int>(count);
}

// counts and displacements of a list of pieces.
struct Layout {
    std::vector<int> counts, offsets;
    template <class F>
    Layout(int size, F&& count) {
        std::int64_t offset = 0;
        for (int r = 0; r < size; ++r) {
            counts.push_back(narrow(count(r)));
            offsets.push_back(narrow(offset));
            offset += count(r);
        }
    }
};

// One source, one destination, same element count: converts between bf16 and f32, or divides.
void convert(DType dtype, const void* from, bool from_wide, void* to, bool to_wide, std::int64_t count, int divide_by) {
    const Source source{static_cast<const std::byte*>(from), from_wide};
    const Destination destination{static_cast<std::byte*>(to), to_wide};
    combine({dtype, ReduceOp::sum, divide_by, false}, {&source, 1}, {&destination, 1}, count);
}

}  // namespace

MpiNative::MpiNative(MpiEndpoint& endpoint, const MpiGroup& group, std::uint64_t sequence, const Collective& call)
    : endpoint_(endpoint),
      group_(group),
      spec_(*call.spec),
      call_(call),
      agreement_(endpoint, group, fingerprint_of(spec_, call.dtype, call.op, sequence),
                 all_but(group.size(), group.rank()), all_but(group.size(), group.rank()),
                 tag_of(sequence, CollectiveTag::fingerprint)) {
    for (int r = 0; r < group.size(); ++r) narrow(std::max(input_elements(spec_, r), output_elements(spec_, r)));
}

std::string MpiNative::why_not(Operation operation, DType, ReduceOp) {
    return operation == Operation::send || operation == Operation::recv ? "it is no collective" : "";
}

bool MpiNative::advance() {
    if (!agreement_.reached() || !agreement_.sent()) return false;
    const auto start = Clock::now();
    call_library();
    endpoint_.add_move_seconds(Clock::now() - start);
    return true;
}

void MpiNative::call_library() {
    const MPI_Comm comm = group_.collectives();
    const MPI_Datatype type = type_of(call_.dtype);
    const int n = group_.size();
    const int me = group_.rank();
    const bool equal = spec_.counts.size() == 1;  // the library has faster ways for equal pieces
    const auto piece = [&](int r) { return piece_count(spec_, r); };
    const void* in = call_.in;
    void* out = call_.out;
    switch (spec_.operation) {
        case Operation::broadcast:
            check_mpi(MPI_Bcast(out, narrow(spec_.counts[0]), type, spec_.root, comm), "MPI_Bcast");
            break;
        case Operation::barrier: check_mpi(MPI_Barrier(comm), "MPI_Barrier"); break;
        case Operation::scatter: {
            const Layout l(n, piece);
            if (equal) {
                check_mpi(MPI_Scatter(in, l.counts[0], type, out, l.counts[0], type, spec_.root, comm), "MPI_Scatter");
                break;
            }
            check_mpi(MPI_Scatterv(in, l.counts.data(), l.offsets.data(), type, out, narrow(piece(me)), type,
                                   spec_.root, comm),
                      "MPI_Scatterv");
            break;
        }
        case Operation::gather: {
            const Layout l(n, piece);
            if (equal) {
                check_mpi(MPI_Gather(in, l.counts[0], type, out, l.counts[0], type, spec_.root, comm), "MPI_Gather");
                break;
            }
            check_mpi(MPI_Gatherv(in, narrow(piece(me)), type, out, l.counts.data(), l.offsets.data(), type, spec_.root,
                                  comm),
                      "MPI_Gatherv");
            break;
        }
        case Operation::all_gather: {
            const Layout l(n, piece);
            if (equal) {
                check_mpi(MPI_Allgather(in, l.counts[0], type, out, l.counts[0], type, comm), "MPI_Allgather");
                break;
            }
            check_mpi(MPI_Allgatherv(in, narrow(piece(me)), type, out, l.counts.data(), l.offsets.data(), type, comm),
                      "MPI_Allgatherv");
            break;
        }
        case Operation::all_to_all: {
            const Layout to(n, [&](int r) { return piece_count(spec_, me, r); });
            const Layout from(n, [&](int r) { return piece_count(spec_, r, me); });
            if (equal) {
                check_mpi(MPI_Alltoall(in, to.counts[0], type, out, to.counts[0], type, comm), "MPI_Alltoall");
                break;
            }
            check_mpi(MPI_Alltoallv(in, to.counts.data(), to.offsets.data(), type, out, from.counts.data(),
                                    from.offsets.data(), type, comm),
                      "MPI_Alltoallv");
            break;
        }
        default: {
            const std::int64_t ins = input_elements(spec_, me);
            const std::int64_t outs = output_elements(spec_, me);
            const int divide_by = call_.op == ReduceOp::avg ? n : 1;
            if (call_.dtype != DType::bf16) {
                reduce_library(in, out, type);
                if (divide_by > 1 && outs > 0) convert(call_.dtype, out, true, out, true, outs, divide_by);
                break;
            }
            std::vector<float> wide_in(static_cast<std::size_t>(ins));
            std::vector<float> wide_out(static_cast<std::size_t>(outs));
            convert(DType::bf16, in, false, wide_in.data(), true, ins, 1);
            reduce_library(wide_in.data(), wide_out.data(), MPI_FLOAT);
            convert(DType::bf16, wide_out.data(), true, out, false, outs, divide_by);
        }
    }
}

void MpiNative::reduce_library(const void* in, void* out, MPI_Datatype type) const {
    const MPI_Comm comm = group_.collectives();
    const MPI_Op op = op_of(call_.op, call_.dtype);
    if (spec_.operation == Operation::reduce_scatter) {
        const Layout l(group_.size(), [&](int r) { return piece_count(spec_, r); });
        if (spec_.counts.size() == 1)
            check_mpi(MPI_Reduce_scatter_block(in, out, l.counts[0], type, op, comm), "MPI_Reduce_scatter_block");
        else
            check_mpi(MPI_Reduce_scatter(in, out, l.counts.data(), type, op, comm), "MPI_Reduce_scatter");
        return;
    }
    const int count = narrow(spec_.counts[0]);
    const bool to_all = spec_.operation == Operation::all_reduce;
    const bool in_place = in == out && (to_all || group_.rank() == spec_.root);
    const void* from = in_place ? MPI_IN_PLACE : in;
    if (to_all)
        check_mpi(MPI_Allreduce(from, out, count, type, op, comm), "MPI_Allreduce");
    else
        check_mpi(MPI_Reduce(from, out, count, type, op, spec_.root, comm), "MPI_Reduce");
}

std::string MpiNative::waiting_for(int& culprit) const {
    return absence(endpoint_, group_, agreement_.absent(), "has not arrived", culprit);
}

void MpiNative::check_possible() const {
    check_not_finished(endpoint_, group_, agreement_.absent(), describe());
}

}  // namespace cleave::comm
