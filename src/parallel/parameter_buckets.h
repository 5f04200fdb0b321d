// The parameters of a model in flat buckets, so that communication is few large messages and that ZeRO can cut them.
//
// A bucket holds parameters of one *class*: the same placements (but for which dim a cut goes through), weight decay or
// none, the same virtual stages of a pipeline and owners, in stage 3 also the same parts of the model. Buckets stand in
// the order in which backward completes them.
//
// A bucket's tensors ("flats": values, masters, gradients, moments) are [blocks, kNormBlock]; each parameter begins at
// a block, and what is left of its last block is zero and stays so. ZeRO cuts a flat as S(0), between blocks. So a
// block of a parameter is the same elements in every stage and for every bucket size, and so are its sums.
//
// Along an axis that cuts the parameters (tp) a flat names nothing: it is each rank's own memory for its pieces. All
// ranks have as many blocks, as the largest piece needs.
// Thread rule: one rank's thread.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"
#include "engine/parameter.h"
#include "parallel/zero.h"

namespace cleave {

struct Bucket {
    struct Slot {
        Parameter* parameter;
        std::int64_t first_block;
        std::int64_t blocks;
    };
    std::vector<Slot> slots;
    std::int64_t blocks = 0;  // at least one for each rank that it is cut over
    bool decays = false;
    int group = 0;  // the first and the second part of the model that uses it (Parameter)
    int second_group = -1;
    std::vector<AxisId> cut_axes;  // those that cut its parameters
    Layout whole;                  // of values: R along the axes of the batch
    Layout shard;                  // whole, but S(0) along the axes of ZeRO

    Shape shape() const;
    bool in_group(int which) const { return group == which || second_group == which; }
    // The stages of the pipeline that hold it.
    const std::vector<int>& owners() const { return slots.front().parameter->owners; }
};

// A tensor for each bucket.
using Flats = std::vector<Tensor>;

class ParameterBuckets {
  public:
    // `all`: of the whole model, in the order of first use; buckets are made of those that this rank's stage of the
    // pipeline owns. `compute`: the dtype of their values.
    ParameterBuckets(Engine& engine, std::span<Parameter* const> all, const ZeroOptions& options, DType compute);

    Engine& engine() const { return engine_; }
    std::span<Parameter* const> parameters() const { return parameters_; }  // of this rank
    std::span<Parameter* const> all_parameters() const { return all_; }
    // True on the stage that counts the bucket's parameters and saves them.
    bool owns_first(const Bucket& bucket) const { return bucket.owners().front() == stage_of_pipeline_; }
    // The other stage that holds them; nothing where one does.
    std::optional<int> other_owner(const Bucket& bucket) const;
    const std::vector<Bucket>& all() const { return buckets_; }
    std::size_t count() const { return buckets_.size(); }
    std::size_t bucket_of(const Parameter& parameter) const { return bucket_of_.at(&parameter); }
    const Bucket::Slot& slot_of(const Parameter& parameter) const;
    // What is cut; nothing where there is one rank to cut over.
    bool cuts_optimizer() const { return stage_ >= 1; }
    bool cuts_gradients() const { return stage_ >= 2; }
    bool cuts_values() const { return stage_ >= 3; }
    const ZeroOptions& options() const { return options_; }
    int last_group() const { return last_group_; }

    // Zeroed. "name 3" is that of bucket 3.
    Tensor alloc(std::size_t bucket, std::string_view name, const Layout& layout, DType dtype, MemoryKind kind) const;
    // The memory of one parameter in a flat that is held whole, as a tensor of its own; of the parameter's layout and
    // name.
    Tensor view(const Tensor& flat, const Parameter& parameter, const Layout& layout, std::string_view name) const;
    Tensor view(const Tensor& flat, const Parameter& parameter) const {
        return view(flat, parameter, parameter.layout, parameter.name);
    }

    // Calls f with each parameter and its memory, along tp its own piece, in flats that may be cut. What f leaves there
    // stays in each rank's shard. A cut bucket is whole for the time of its turn.
    using Fill = std::function<void(Parameter&, const Tensor&)>;
    void fill(const Flats& flats, const Fill& f) const;
    // Calls f with each parameter of the whole model and its whole tensor, on the ranks of the pipeline's first stage,
    // to read it. All ranks take part.
    using Visit = std::function<void(const Parameter&, const Tensor&)>;
    void visit(const Flats& flats, const Visit& f) const;

  private:
    // Those of another stage.
    ParameterBuckets(const ParameterBuckets& of, int stage_of_pipeline);
    void make_buckets();
    void send_to_first_stage(const Parameter& parameter, const Tensor& whole) const;
    void visit_other_stages(const Flats& flats, const Visit& f) const;
    Bucket new_bucket(const Parameter& parameter) const;
    std::int64_t blocks_of(const Parameter& parameter) const;

    Engine& engine_;
    std::vector<Parameter*> all_;
    std::vector<Parameter*> parameters_;
    int stage_of_pipeline_;
    DType compute_;
    ZeroOptions options_;
    int stage_;
    int last_group_ = 0;
    std::vector<Bucket> buckets_;
    std::unordered_map<const Parameter*, std::size_t> bucket_of_;
};

}  // namespace cleave
