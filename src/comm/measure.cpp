#include "comm/measure.h"

#include <algorithm>
#include <memory>
#include <new>

#include "base/cores.h"
#include "base/error.h"
#include "comm/combine.h"

namespace cleave::comm {
namespace {

struct Free {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{4096}); }
};
using Memory = std::unique_ptr<std::byte[], Free>;

Memory allocate(std::int64_t bytes) {
    return Memory(static_cast<std::byte*>(
        ::operator new (static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)), std::align_val_t{4096})));
}

// Small whole numbers: their sums over up to 16 ranks are exact in every dtype.
int input_number(int rank, std::int64_t i) {
    return static_cast<int>((i * 7 + rank * 3) % 16);
}

class Bench {
  public:
    Bench(Communicator& world, const MeasureOptions& options, std::int64_t elements)
        : world_(world), options_(options), n_(world.size()), spec_{options.operation,
                                                                    options.algorithm,
                                                                    n_,
                                                                    0,
                                                                    0,
                                                                    {}} {
        piece_ = cut_into_pieces(options.operation) ? (elements + n_ - 1) / n_ : elements;
        elements_ = cut_into_pieces(options.operation) ? piece_ * n_ : elements;
        if (options.operation != Operation::barrier) spec_.counts = {piece_};
        const std::int64_t bytes = elements_ * size_of(options.dtype);
        in_ = allocate(bytes);
        out_ = allocate(bytes);
        dispatch(options.dtype, [&](auto element) { fill<decltype(element)>(); });
    }

    Measurement run() {
        Measurement m;
        m.elements = elements_;
        m.bytes = elements_ * size_of(options_.dtype);
        const double seconds = timed([&] { call(); });
        m.mean = over_ranks(seconds, ReduceOp::avg);
        m.min = over_ranks(seconds, ReduceOp::min);
        m.max = over_ranks(seconds, ReduceOp::max);
        std::fill_n(out_.get(), m.bytes, std::byte{0xff});
        call();
        m.wrong = dispatch(options_.dtype, [&](auto element) { return wrong<decltype(element)>(); });
        std::int64_t all_wrong = 0;
        world_.all_reduce(&m.wrong, &all_wrong, 1, DType::i64, ReduceOp::sum).wait();
        m.wrong = all_wrong;
        if (options_.copy_bound) measure_copy(m);
        return m;
    }

  private:
    template <class T>
    void fill() {
        T* x = reinterpret_cast<T*>(in_.get());
        for (std::int64_t i = 0; i < elements_; ++i)
            x[i] = T(static_cast<accumulator_t<T>>(input_number(world_.rank(), i)));
        std::fill_n(out_.get(), elements_ * size_of(options_.dtype), std::byte{0xff});
    }

    void call() {
        if (options_.operation != Operation::send) return call_collective();
        Handle out = world_.isend(in_.get(), elements_, options_.dtype, (world_.rank() + 1) % n_);
        world_.recv(out_.get(), elements_, options_.dtype, (world_.rank() + n_ - 1) % n_);
        out.wait();
    }
    void call_collective() {
        // broadcast works in one buffer: the root's is its input.
        const bool own_input = options_.operation == Operation::broadcast && world_.rank() != 0;
        std::byte* out = options_.operation == Operation::broadcast && world_.rank() == 0 ? in_.get() : out_.get();
        world_.start(spec_, own_input ? out : in_.get(), out, options_.dtype, ReduceOp::sum).wait();
    }

    template <class F>
    double timed(F&& f) {
        for (int i = 0; i < options_.warmup; ++i) f();
        world_.barrier().wait();
        const auto start = Clock::now();
        for (int i = 0; i < options_.iterations; ++i) f();
        const auto end = Clock::now();
        started_ = std::chrono::duration<double>(start.time_since_epoch()).count();
        ended_ = std::chrono::duration<double>(end.time_since_epoch()).count();
        return (ended_ - started_) / options_.iterations;
    }

    double over_ranks(double value, ReduceOp op) {
        double result = 0;
        world_.all_reduce(&value, &result, 1, DType::f64, op).wait();
        return result;
    }

    int sum_of_inputs(std::int64_t i) const {
        int sum = 0;
        for (int r = 0; r < n_; ++r) sum += input_number(r, i);
        return sum;
    }
    // What element i of this rank's output must be.
    int expected(std::int64_t i) const {
        switch (options_.operation) {
            case Operation::broadcast: return input_number(0, i);
            case Operation::scatter: return input_number(0, world_.rank() * piece_ + i);
            case Operation::gather:
            case Operation::all_gather: return input_number(static_cast<int>(i / piece_), i % piece_);
            case Operation::reduce_scatter: return sum_of_inputs(world_.rank() * piece_ + i);
            case Operation::all_to_all:
                return input_number(static_cast<int>(i / piece_), world_.rank() * piece_ + i % piece_);
            case Operation::send: return input_number((world_.rank() + n_ - 1) % n_, i);
            default: return sum_of_inputs(i);
        }
    }
    template <class T>
    std::int64_t wrong() const {
        const bool nothing = options_.operation == Operation::barrier ||
                             (options_.operation == Operation::broadcast && world_.rank() == 0);
        const std::int64_t count = nothing                                 ? 0
                                   : options_.operation == Operation::send ? elements_
                                                                           : output_elements(spec_, world_.rank());
        const T* y = reinterpret_cast<const T*>(out_.get());
        std::int64_t differing = 0;
        for (std::int64_t i = 0; i < count; ++i)
            differing += static_cast<double>(static_cast<accumulator_t<T>>(y[i])) != expected(i) ? 1 : 0;
        return differing;
    }

    std::int64_t bytes_to_copy() const {
        if (options_.operation == Operation::send) return elements_ * size_of(options_.dtype);
        Spec direct = spec_;
        direct.algorithm = Algorithm::direct;
        const Program program = build_program(direct);
        return std::max(program.bytes_read(world_.rank(), options_.dtype),
                        program.bytes_written(world_.rank(), options_.dtype));
    }
    void measure_copy(Measurement& m) {
        // Ranks that share a core copy by turns, and a rank that copies the same bytes over and over finds them in the
        // cache, where no collective would: others' bytes pass between. Such ranks go through the whole buffers.
        const bool by_turns = n_ > available_cores();
        const std::int64_t share = bytes_to_copy();
        std::int64_t at = 0;
        const auto copy = [&](bool streaming) {
            if (!by_turns) at = 0;
            for (std::int64_t left = share, part = 0; left > 0; left -= part) {
                part = std::min(left, m.bytes - at);
                copy_bytes(out_.get() + at, in_.get() + at, part, streaming);
                at = (at + part) % m.bytes;
            }
        };
        // Nothing holds copying ranks together, so where they share cores they run one after another: what counts is
        // the time from the first start to the last end.
        const auto together = [&](bool streaming) {
            (void)timed([&] { copy(streaming); });
            return (over_ranks(ended_, ReduceOp::max) - over_ranks(started_, ReduceOp::min)) / options_.iterations;
        };
        const double plain = together(false);
        const double streamed = together(true);
        m.copy_seconds = std::min(plain, streamed);
        m.copy_with = plain <= streamed ? "memcpy" : "streaming";
    }

    Communicator& world_;
    const MeasureOptions& options_;
    const int n_;
    Spec spec_;
    std::int64_t piece_ = 0;
    std::int64_t elements_ = 0;
    Memory in_, out_;
    double started_ = 0, ended_ = 0;  // of the last timing
};

}  // namespace

double bus_factor(Operation operation, int ranks) {
    const double share = ranks > 1 ? static_cast<double>(ranks - 1) / ranks : 1.0;
    if (operation == Operation::all_reduce) return 2 * share;
    return cut_into_pieces(operation) ? share : 1.0;
}

std::string_view bus_formula(Operation operation) {
    if (operation == Operation::all_reduce) return "2(n-1)/n x bytes / time";
    return cut_into_pieces(operation) ? "(n-1)/n x bytes / time" : "bytes / time";
}

double approximate_bus_factor(Operation operation) {
    return operation == Operation::all_reduce ? 2.0 : 1.0;
}

std::string_view approximate_bus_formula(Operation operation) {
    return operation == Operation::all_reduce ? "2 x bytes / time" : "bytes / time";
}

Measurement measure(Communicator& world, const MeasureOptions& options, std::int64_t elements) {
    if (options.operation == Operation::recv) throw UserError("recv is measured as send: a ring of messages");
    return Bench(world, options, options.operation == Operation::barrier ? 0 : elements).run();
}

}  // namespace cleave::comm
