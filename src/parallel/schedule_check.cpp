#include "parallel/schedule_check.h"

#include <fmt/format.h>

#include "base/error.h"
#include "parallel/schedule_waits.h"

namespace cleave {
namespace {

// What a cell has had, as bits.
constexpr unsigned bit(ActionType type) {
    return 1U << static_cast<unsigned>(type);
}
constexpr unsigned kForward = bit(ActionType::forward);
constexpr unsigned kPassedOn = bit(ActionType::backward) | bit(ActionType::input_gradient);
constexpr unsigned kWeights = bit(ActionType::backward) | bit(ActionType::weight_gradient);

// One pass over the lists. A cell (microbatch, virtual stage) belongs to one stage, so that one table serves all.
class ListCheck {
  public:
    ListCheck(const PipelineSchedule& schedule, bool whole)
        : schedule_(schedule), whole_(whole), done_(cells_of(schedule), 0) {}

    std::optional<ScheduleProblem> run() {
        for (stage_ = 0; stage_ < schedule_.stages && !problem_; ++stage_) check_list();
        return std::move(problem_);
    }

  private:
    void check_list() {
        const Schedule& list = schedule_.of_stage[static_cast<std::size_t>(stage_)];
        const std::vector<std::size_t> last = last_backwards(list);
        bool reduced = false;
        bool updated = false;
        for (position_ = 0; position_ < list.size() && !problem_; ++position_) {
            action_ = list[position_];
            if (action_.type == ActionType::reduce) {
                if (reduced) fail("a second reduction", "one, after all backwards");
                if (updated) fail("it comes after the update", "before the update");
                reduced = true;
            } else if (action_.type == ActionType::optimizer) {
                if (updated) fail("a second update", "one, at the end");
                if (!reduced && whole_) fail("the update comes before the reduction", "after the reduction");
                updated = true;
            } else if (reduced || updated) {
                fail("it comes after the reduction of the gradients", "reduction and update at the end of the list");
            } else {
                check_place();
                if (!problem_) check_action();
                if (!problem_ && whole_) check_mark(last);
            }
        }
        if (!problem_) check_complete(reduced, updated);
    }

    // Of each chunk its last action that makes weight gradients.
    std::vector<std::size_t> last_backwards(const Schedule& list) const {
        std::vector<std::size_t> last(static_cast<std::size_t>(schedule_.chunks), list.size());
        for (std::size_t i = 0; i < list.size(); ++i)
            if (makes_weight_gradients(list[i].type) && list[i].chunk >= 0 && list[i].chunk < schedule_.chunks)
                last[static_cast<std::size_t>(list[i].chunk)] = i;
        return last;
    }

    void check_place() {
        if (action_.microbatch < 0 || action_.microbatch >= schedule_.microbatches)
            return fail(fmt::format("there is no microbatch {}", action_.microbatch),
                        fmt::format("microbatches from 0 to {}", schedule_.microbatches - 1));
        if (action_.chunk < 0 || action_.chunk >= schedule_.chunks)
            return fail(fmt::format("there is no chunk {}", action_.chunk),
                        fmt::format("chunks from 0 to {}", schedule_.chunks - 1));
        at_ = schedule_.virtual_stage_of(stage_, action_.chunk);
        const auto place = schedule_.place_of(at_, action_.microbatch);
        if (place.chunk != action_.chunk || place.stage != stage_) {
            const int chunk = 1 - action_.chunk;
            fail(fmt::format("on the route 'mirrored' microbatch {} goes through the chunks {}", action_.microbatch,
                             chunk),
                 text_of({action_.type, action_.microbatch, chunk, false}));
        }
    }

    void check_action() {
        unsigned& done = done_[cell_of(schedule_, at_, action_.microbatch)];
        if (done & bit(action_.type)) return fail("it stands a second time", "once");
        if (is_message(action_.type))
            check_message(done);
        else
            check_compute(done);
        done |= bit(action_.type);
    }

    void check_compute(unsigned done) {
        const bool passes = passes_gradient_on(action_.type);
        if (action_.type == ActionType::forward) return check_input(done, ActionType::receive_activation);
        if (!(done & kForward)) return fail("it comes before its own forward", after(ActionType::forward));
        if (passes && (done & kPassedOn))
            return fail("this backward is there already, whole or as its input gradient", "one of the two");
        if (passes) return check_input(done, ActionType::receive_gradient);
        if (done & bit(ActionType::backward))
            return fail("its backward, weight gradients with it, is there already",
                        "a weight gradient after an input gradient");
        if (!(done & kPassedOn)) fail("it comes before its own input gradient", after(ActionType::input_gradient));
    }

    // What the action needs of the virtual stage next to it: received, or made before on this stage.
    void check_input(unsigned done, ActionType receive) {
        const int from = neighbour_of(schedule_, at_, receive);
        if (from < 0) return;
        if (stage_of(from) != stage_) {
            if (whole_ && !(done & bit(receive)))
                fail(fmt::format("it comes before the {}", words_of(receive)), after(receive));
            return;
        }
        const bool forward = action_.type == ActionType::forward;
        if (done_[cell_of(schedule_, from, action_.microbatch)] & (forward ? kForward : kPassedOn)) return;
        const int chunk = schedule_.place_of(from, action_.microbatch).chunk;
        fail("it comes before what it needs from the stage's other chunk",
             fmt::format("after {}", text_of({action_.type, action_.microbatch, chunk, false})));
    }

    void check_message(unsigned done) {
        const int other = neighbour_of(schedule_, at_, action_.type);
        const bool send = is_send(action_.type);
        if (other < 0)
            return fail(send ? "the model ends here: nobody takes it" : "the model ends here: nobody sends it",
                        "no such message");
        if (stage_of(other) == stage_)
            return fail("both chunks are this stage's own: it is handed over without a message", "no such message");
        if (action_.type == ActionType::send_activation && !(done & kForward))
            fail("it comes before the forward that makes it", after(ActionType::forward));
        else if (action_.type == ActionType::send_gradient && !(done & kPassedOn))
            fail("it comes before the backward that makes it", "after its backward or input gradient");
        // A receive after its use has been found at the use.
    }

    void check_mark(const std::vector<std::size_t>& last) {
        const bool right =
            makes_weight_gradients(action_.type) && last[static_cast<std::size_t>(action_.chunk)] == position_;
        if (action_.last_backward == right) return;
        fail(right ? "it is the chunk's last that makes weight gradients, and is not marked so"
                   : "it is marked as the chunk's last that makes weight gradients",
             right ? "marked" : "the mark on the last alone");
    }

    void check_complete(bool reduced, bool updated) {
        for (int microbatch = 0; microbatch < schedule_.microbatches; ++microbatch)
            for (int chunk = 0; chunk < schedule_.chunks; ++chunk) {
                at_ = schedule_.virtual_stage_of(stage_, chunk);
                const auto place = schedule_.place_of(at_, microbatch);
                if (place.stage == stage_ && place.chunk == chunk && missing(microbatch, chunk)) return;
            }
        if (whole_ && !reduced) return fail_missing({ActionType::reduce, -1, 0, false});
        if (whole_ && !updated) fail_missing({ActionType::optimizer, -1, 0, false});
    }

    bool missing(int microbatch, int chunk) {
        const unsigned done = done_[cell_of(schedule_, at_, microbatch)];
        const auto lacks = [&](bool lacking, ActionType type) {
            if (lacking) fail_missing({type, microbatch, chunk, false});
            return lacking;
        };
        if (lacks(!(done & kForward), ActionType::forward)) return true;
        if (lacks(!(done & kPassedOn), ActionType::backward)) return true;
        if (lacks(!(done & kWeights), ActionType::weight_gradient)) return true;
        if (!whole_) return false;
        return lacks(!(done & bit(ActionType::send_activation)) && leaves(ActionType::send_activation),
                     ActionType::send_activation) ||
               lacks(!(done & bit(ActionType::send_gradient)) && leaves(ActionType::send_gradient),
                     ActionType::send_gradient);
    }

    // Whether a message of this kind goes from the virtual stage to another stage.
    bool leaves(ActionType type) const {
        const int to = neighbour_of(schedule_, at_, type);
        return to >= 0 && stage_of(to) != stage_;
    }

    // On the mirrored route a microbatch stays in its direction, so any microbatch of the chunk's tells the place.
    int stage_of(int virtual_stage) const { return schedule_.place_of(virtual_stage, action_.microbatch).stage; }

    std::string after(ActionType type) const {
        return fmt::format("after {}", text_of({type, action_.microbatch, action_.chunk, false}));
    }
    void fail(std::string wrong, std::string right) {
        if (!problem_) problem_ = ScheduleProblem{stage_, position_, action_, std::move(wrong), std::move(right)};
    }
    void fail_missing(const ScheduleAction& action) {
        action_ = action;
        fail("it is missing", "every action of the step, once");
    }

    const PipelineSchedule& schedule_;
    bool whole_;
    std::vector<unsigned> done_;  // the action types that a cell has had
    std::optional<ScheduleProblem> problem_;
    int stage_ = 0;
    std::size_t position_ = 0;
    ScheduleAction action_{};
    int at_ = 0;  // the action's virtual stage
};

void check_shape(const PipelineSchedule& schedule) {
    CLEAVE_CHECK(schedule.stages >= 1 && schedule.chunks >= 1 && schedule.microbatches >= 1 &&
                     schedule.of_stage.size() == static_cast<std::size_t>(schedule.stages),
                 "{} stages, {} lists, {} chunks, {} microbatches", schedule.stages, schedule.of_stage.size(),
                 schedule.chunks, schedule.microbatches);
    CLEAVE_CHECK(schedule.route == Route::round_robin || schedule.chunks == 2, "{} chunks", schedule.chunks);
}

}  // namespace

std::string text_of(const ScheduleProblem& problem) {
    return fmt::format("stage {}, action {} of its list, {}: {}; accepted: {}", problem.stage, problem.position + 1,
                       text_of(problem.action), problem.wrong, problem.right);
}

std::optional<ScheduleProblem> check_order(const PipelineSchedule& schedule) {
    check_shape(schedule);
    if (auto problem = ListCheck(schedule, false).run()) return problem;
    return find_computing_circle(schedule);
}

std::optional<ScheduleProblem> check_schedule(const PipelineSchedule& schedule) {
    check_shape(schedule);
    if (auto problem = ListCheck(schedule, true).run()) return problem;
    if (auto problem = find_computing_circle(schedule)) return problem;
    return find_message_circle(schedule);
}

}  // namespace cleave
