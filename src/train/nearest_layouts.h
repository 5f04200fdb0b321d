// What would work instead? Complete layouts near one that was refused: several problems, each with the nearest value of
// its own key, name values that need not fit each other. These do, since each is found by asking the checks themselves.
// Thread rule: pure functions.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "train/job.h"

namespace cleave {

struct LayoutSetting {
    std::string key;
    std::string value;  // as --set writes it
};
struct NearLayout {
    int ranks = 1;
    std::vector<LayoutSetting> settings;  // what to set beside, or instead of, what is set
};

// Where the number of ranks comes from: it is given, and the mesh has to fill it; or the mesh says it.
enum class RanksFrom : std::uint8_t { given, mesh };

// At most three layouts for which check_layout() finds nothing wrong with any key of the layout, the nearest first.
// None where it finds nothing to begin with. `refused`: keys whose value was refused before and who keep their default:
// where they are the layout's, it is said too.
std::vector<NearLayout> nearest_layouts(const Job& job, int ranks, RanksFrom from,
                                        const std::set<std::string, std::less<>>& refused = {});

// As lines to stand below the problems; empty where there is none. `named` writes a setting ("--set mesh.tp=2", or as
// a command's option has it).
std::string nearest_layouts_text(const std::vector<NearLayout>& layouts,
                                 const std::function<std::string(const LayoutSetting&)>& named, bool with_ranks);
std::string as_set(const LayoutSetting& setting);

}  // namespace cleave
