// No kernel without its tests: the headers of src/kernels say which kernels there are; each must be in the table of
// cases, and either in the table of gradients or in the list of those that have none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cxxabi.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <typeinfo>

#include "cases.h"
#include "support/pattern.h"

namespace cleave::kernels::test {
namespace {

using Names = std::set<std::string>;

// Updates, fills and measures: nothing is differentiated through them. ZLoss and the pieces of a cross entropy have
// their gradient in that of the cross entropy, which tests/model judges.
const Names kWithoutGradient{"AdamW",           "Sgd",
                             "SquaredNorm",     "Fill",
                             "FillNormal",      "DropoutMask",
                             "ZLoss",           "DocumentPositions",
                             "ClassStatistics", "CrossEntropyOfPieces"};

Names declared_kernels() {
    const std::string declaration = R"(struct (\w+)\s*(final)?\s*:\s*(public )?(Kernel|Declared<))";
    Names names;
    for (const auto& entry : std::filesystem::directory_iterator(CLEAVE_SOURCE "/src/kernels")) {
        if (entry.path().extension() != ".h") continue;
        std::ifstream file(entry.path());
        const std::string text{std::istreambuf_iterator<char>(file), {}};
        for (const cleave::test::Groups& match : cleave::test::matches(text, declaration)) names.insert(match[1]);
    }
    names.erase("Declared");
    return names;
}

std::string class_of(const Kernel& kernel) {
    int status = 0;
    char* demangled = abi::__cxa_demangle(typeid(kernel).name(), nullptr, nullptr, &status);
    const std::string name = demangled;
    std::free(demangled);
    return name.substr(name.rfind(':') + 1);
}

TEST(Coverage, EveryKernelIsInTheTableOfCases) {
    for (bool large : {false, true}) {
        Names tested;
        for (const Case& c : all_cases(large)) tested.insert(class_of(*c.kernel));
        EXPECT_THAT(tested, testing::ContainerEq(declared_kernels()));
    }
}

TEST(Coverage, EveryKernelHasItsGradientCheckedOrHasNone) {
    Names known = kWithoutGradient;
    for (const Pair& pair : all_pairs()) {
        EXPECT_FALSE(kWithoutGradient.count(class_of(*pair.forward.kernel))) << pair.forward.name;
        known.insert(class_of(*pair.forward.kernel));
        for (const Backward& backward : pair.backward) known.insert(class_of(*backward.kernel));
        // Every input that can have a gradient has one.
        std::set<std::size_t> covered;
        for (const Backward& backward : pair.backward)
            covered.insert(backward.gradient_of.begin(), backward.gradient_of.end());
        for (std::size_t i = 0; i < pair.forward.inputs.size(); ++i)
            EXPECT_EQ(covered.count(i), pair.forward.inputs[i].role == Role::value)
                << pair.forward.name << " input " << i;
    }
    EXPECT_THAT(known, testing::ContainerEq(declared_kernels()));
}

}  // namespace
}  // namespace cleave::kernels::test
