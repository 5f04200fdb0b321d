// What the tables of cases (cases.h) are written with.
#pragma once

#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>

#include "cases.h"

namespace cleave::kernels::test {

using Arrays = std::vector<Array>;

inline OperandCase in(const Shape& shape, const std::string& name) {
    return {normal(shape, name)};
}
inline OperandCase sums(const Shape& shape, const std::string& name) {
    return {normal(shape, name), Role::accumulator};
}
inline OperandCase out(const Shape& shape) {
    // A kernel that writes must not read: what was there is not a number.
    return {Array(shape, std::numeric_limits<double>::quiet_NaN())};
}
inline OperandCase out_sums(const Shape& shape) {
    OperandCase operand = out(shape);
    operand.role = Role::accumulator;
    return operand;
}
inline OperandCase positive(const Shape& shape, const std::string& name) {
    Array values = normal(shape, name);
    for (double& v : values.values) v = 0.5 + std::abs(v);
    return {values, Role::accumulator};
}
inline OperandCase tokens(const Shape& shape, const std::string& name, std::int64_t below) {
    return {integers(shape, name, below), Role::tokens};
}

template <class K, class F>
Case make(const std::string& name, K kernel, std::vector<OperandCase> inputs, std::vector<OperandCase> outputs,
          F&& reference, double roundings = 8) {
    return {name,
            std::make_shared<const K>(std::move(kernel)),
            std::move(inputs),
            std::move(outputs),
            std::forward<F>(reference),
            roundings};
}

inline const Case& named(const std::vector<Case>& cases, const std::string& name) {
    for (const Case& c : cases)
        if (c.name == name) return c;
    throw std::logic_error("no case " + name);
}

template <class K>
Backward back(K kernel, std::vector<Source> inputs, std::vector<std::size_t> gradient_of) {
    return {std::make_shared<const K>(std::move(kernel)), std::move(inputs), std::move(gradient_of)};
}

// attention_cases.cpp
void add_optimizers(std::vector<Case>& cases, bool large);
void add_attention(std::vector<Case>& cases, bool large);
void add_attention_pairs(std::vector<Pair>& pairs, const std::vector<Case>& cases);

}  // namespace cleave::kernels::test
