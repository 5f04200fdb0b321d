#include "parallel/schedule_temporary.h"

#include <map>
#include <set>
#include <tuple>

#include "base/error.h"

namespace cleave {

PipelineForm temporary_form(const std::string& kind, int stages, int chunks) {
    PipelineForm form;
    form.stages = stages;
    form.chunks = chunks == 0 ? 1 : chunks;
    if (kind == "zbv" || kind == "dualpipev") form.route = Route::vee, form.chunks = 2;
    if (kind == "dualpipe") form.route = Route::mirrored, form.chunks = 2;
    if (kind == "interleaved" && chunks == 0) form.chunks = 2;
    return form;
}

// Greedy, a slot at a time: backward before forward, weight gradients where nothing else can be done.
PipelineSchedule temporary_schedule(const std::string& kind, const PipelineForm& form, int m) {
    using Type = ScheduleAction::Type;
    PipelineSchedule s;
    s.name = kind;
    s.stages = form.stages;
    s.chunks = form.chunks;
    s.route = form.route;
    s.microbatches = m;
    s.of_stage.resize(static_cast<std::size_t>(form.stages));
    const int last = s.virtual_stages() - 1;
    const bool split = kind[0] == 'z' || kind == "dualpipe";
    std::set<std::tuple<int, int, int>> done;  // type, virtual stage, microbatch
    std::map<std::pair<int, int>, int> left;   // weight gradients by stage, chunk
    for (int p = 0; p < form.stages; ++p)
        for (int c = 0; c < form.chunks; ++c)
            for (int i = 0; i < m; ++i) left[{p, c}] += s.place_of(s.virtual_stage_of(p, c), i) == PipelineSchedule::Place{p, c};
    const auto complete = [&] {
        for (auto& [k, v] : left)
            if (v > 0) return false;
        return true;
    };
    while (!complete()) {
        std::vector<std::pair<int, ScheduleAction>> now;
        for (int p = 0; p < form.stages; ++p) {
            std::optional<ScheduleAction> best;
            for (const int type : {1, 0, 2})
                for (int i = 0; i < m && !best; ++i)
                    for (int c = form.chunks - 1; c >= 0 && !best; --c) {
                        const int v = s.virtual_stage_of(p, c);
                        if (!(s.place_of(v, i) == PipelineSchedule::Place{p, c})) continue;
                        if (done.count({type, v, i})) continue;
                        if (type == 0 && v > 0 && !done.count({0, v - 1, i})) continue;
                        if (type == 0 && kind == "1f1b") {
                            int open = 0;
                            for (int j = 0; j < m; ++j) open += done.count({0, v, j}) && !done.count({1, v, j});
                            if (open >= form.stages - p) continue;
                        }
                        if (type == 1 && (!done.count({0, v, i}) || (v < last && !done.count({1, v + 1, i})))) continue;
                        if (type == 1 && kind == "gpipe" && !done.count({0, v, m - 1})) continue;
                        if (type == 2 && (!split || !done.count({1, v, i}))) continue;
                        best = ScheduleAction{type == 0 ? Type::forward
                                              : type == 2 ? Type::weight_gradient
                                              : split     ? Type::input_gradient
                                                          : Type::backward,
                                              i, c, false};
                    }
            if (best) now.emplace_back(p, *best);
        }
        CLEAVE_CHECK(!now.empty(), "stuck");
        for (auto& [p, a] : now) {
            if (a.type == Type::weight_gradient || a.type == Type::backward)
                a.last_backward = --left[{p, a.chunk}] == 0;
            s.of_stage[static_cast<std::size_t>(p)].push_back(a);
        }
        for (auto& [p, a] : now) {
            const int v = s.virtual_stage_of(p, a.chunk);
            done.insert({a.type == Type::forward ? 0 : a.type == Type::weight_gradient ? 2 : 1, v, a.microbatch});
            const auto message = [&](int to, Type send, Type receive) {
                const auto place = s.place_of(to, a.microbatch);
                if (place.stage == p) return;
                s.of_stage[static_cast<std::size_t>(p)].push_back({send, a.microbatch, a.chunk, false});
                s.of_stage[static_cast<std::size_t>(place.stage)].push_back({receive, a.microbatch, place.chunk, false});
            };
            if (a.type == Type::forward && v < last) message(v + 1, Type::send_activation, Type::receive_activation);
            if ((a.type == Type::backward || a.type == Type::input_gradient) && v > 0)
                message(v - 1, Type::send_gradient, Type::receive_gradient);
        }
    }
    for (auto& list : s.of_stage) {
        list.push_back({Type::reduce, -1, 0, false});
        list.push_back({Type::optimizer, -1, 0, false});
    }
    return s;
}

}  // namespace cleave
