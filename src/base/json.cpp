#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"

namespace cleave {
namespace {

constexpr std::size_t kMaxDepth = 64;

// Builds a Json from nlohmann's events, so that the order of members is kept and depth is bounded before any is built.
class Builder : public nlohmann::json_sax<nlohmann::json> {
  public:
    bool null() override { return add(Json()); }
    bool boolean(bool value) override { return add(Json(value)); }
    bool number_integer(std::int64_t value) override { return add(Json(value)); }
    bool number_unsigned(std::uint64_t value) override {
        if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
            return fail(fmt::format("the number {} is above 2^63 - 1", value));
        return add(Json(static_cast<std::int64_t>(value)));
    }
    bool number_float(double value, const std::string&) override { return add(Json(value)); }
    bool string(std::string& value) override { return add(Json(std::move(value))); }
    bool binary(binary_t&) override { return fail("binary data"); }
    bool key(std::string& value) override {
        keys_.back() = std::move(value);
        return true;
    }
    bool start_object(std::size_t) override { return open(Json::object()); }
    bool start_array(std::size_t) override { return open(Json::array()); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }
    bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
        return fail(fmt::format("unexpected text at byte {}", position));
    }

    Json take() { return std::move(root_); }
    const std::string& error() const { return error_; }

  private:
    bool fail(std::string why) {
        error_ = std::move(why);
        return false;
    }
    bool open(Json container) {
        if (open_.size() == kMaxDepth) return fail(fmt::format("nested deeper than {}", kMaxDepth));
        open_.push_back(std::move(container));
        keys_.emplace_back();
        return true;
    }
    bool close() {
        Json done = std::move(open_.back());
        if (done.members() != nullptr && !names_differ(*done.members())) return false;
        open_.pop_back();
        keys_.pop_back();
        return add(std::move(done));
    }
    bool add(Json value) {
        if (open_.empty()) {
            root_ = std::move(value);
        } else if (open_.back().items() != nullptr) {
            open_.back().push(std::move(value));
        } else {
            open_.back().append(std::move(keys_.back()), std::move(value));
        }
        return true;
    }
    // Once an object, in sorted order: a vocabulary has a hundred thousand members.
    bool names_differ(const Json::Object& members) {
        std::vector<std::string_view> names;
        names.reserve(members.size());
        for (const auto& [name, value] : members) names.emplace_back(name);
        std::sort(names.begin(), names.end());
        const auto twice = std::adjacent_find(names.begin(), names.end());
        return twice == names.end() || fail(fmt::format("'{}' twice", *twice));
    }

    Json root_;
    std::vector<Json> open_;
    std::vector<std::string> keys_;  // of the member being read, one a level
    std::string error_;
};

void write_string(std::string& out, std::string_view text) {
    out += '"';
    for (std::size_t at = 0; at < text.size();) {
        const Utf8Step step = utf8_step(text, at);
        const std::string_view bytes = text.substr(at, step.length);
        at += step.length;
        if (!step.valid) {
            out += "\xEF\xBF\xBD";
        } else if (step.code_point == '"' || step.code_point == '\\') {
            out += '\\';
            out += bytes;
        } else if (step.code_point == '\n') {
            out += "\\n";
        } else if (step.code_point < 0x20 || step.code_point == 0x7f) {
            fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(step.code_point));
        } else {
            out += bytes;
        }
    }
    out += '"';
}

void new_line(std::string& out, int indent, int level) {
    if (indent == 0) return;
    out += '\n';
    out.append(static_cast<std::size_t>(indent) * static_cast<std::size_t>(level), ' ');
}

void write(std::string& out, const Json& json, int indent, int level);

template <class Items, class WriteItem>
void write_list(std::string& out, char open, char close, const Items& items, int indent, int level, WriteItem&& item) {
    out += open;
    bool first = true;
    for (const auto& each : items) {
        if (!first) out += indent == 0 ? ", " : ",";
        first = false;
        new_line(out, indent, level + 1);
        item(each);
    }
    if (!first) new_line(out, indent, level);
    out += close;
}

void write(std::string& out, const Json& json, int indent, int level) {
    if (const auto* truth = json.boolean()) {
        out += *truth ? "true" : "false";
    } else if (const auto* integer = json.integer()) {
        fmt::format_to(std::back_inserter(out), "{}", *integer);
    } else if (json.is_number()) {
        // fmt's "{}" is the shortest text that reads back the same bits; but for "-0", which reads as an integer.
        const double real = json.number();
        out += !std::isfinite(real) ? "null" : real == 0 && std::signbit(real) ? "-0.0" : fmt::format("{}", real);
    } else if (const auto* text = json.string()) {
        write_string(out, *text);
    } else if (const auto* items = json.items()) {
        write_list(out, '[', ']', *items, indent, level,
                   [&](const Json& item) { write(out, item, indent, level + 1); });
    } else if (const auto* members = json.members()) {
        write_list(out, '{', '}', *members, indent, level, [&](const Json::Member& member) {
            write_string(out, member.first);
            out += ": ";
            write(out, member.second, indent, level + 1);
        });
    } else {
        out += "null";
    }
}

}  // namespace

Json::Json(std::initializer_list<Member> members) : value_(Object{}) {
    for (const auto& [key, value] : members) set(key, value);
}

Json Json::parse(std::string_view text, std::string_view source) {
    Builder builder;
    if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder))
        throw UserError("{}: not valid JSON: {}", source, builder.error());
    return builder.take();
}

std::string Json::dump(int indent) const {
    std::string out;
    write(out, *this, indent, 0);
    return out;
}

Json& Json::set(std::string_view key, Json value) {
    if (is_null()) value_ = Object{};
    auto* members = std::get_if<Object>(&value_);
    CLEAVE_CHECK(members != nullptr, "a member '{}' of what is no object", key);
    for (auto& [name, old] : *members) {
        if (name != key) continue;
        old = std::move(value);
        return *this;
    }
    members->emplace_back(std::string(key), std::move(value));
    return *this;
}

void Json::append(std::string name, Json value) {
    auto* members = std::get_if<Object>(&value_);
    CLEAVE_CHECK(members != nullptr, "a member '{}' of what is no object", name);
    members->emplace_back(std::move(name), std::move(value));
}

Json& Json::push(Json value) {
    if (is_null()) value_ = Array{};
    auto* items = std::get_if<Array>(&value_);
    CLEAVE_CHECK(items != nullptr, "an item of what is no array");
    items->push_back(std::move(value));
    return *this;
}

double Json::number(double otherwise) const {
    if (const auto* whole = integer()) return static_cast<double>(*whole);
    const auto* real = std::get_if<double>(&value_);
    return real != nullptr ? *real : otherwise;
}

const Json* Json::find(std::string_view key) const {
    const auto* all = members();
    if (all == nullptr) return nullptr;
    for (const auto& [name, value] : *all)
        if (name == key) return &value;
    return nullptr;
}

}  // namespace cleave
