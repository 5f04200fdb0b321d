// Ends a text at the first of some words, which is no part of it, while the text comes in pieces: what may be the
// beginning of such a word is held back until it is known. Thread rule: one thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cleave {

class StopText {
  public:
    explicit StopText(std::vector<std::string> words) : words_(std::move(words)) {}

    // What is certain by now to be part of the text, and was not given before.
    std::string add(std::string_view piece);
    bool found() const { return found_; }
    // At the end of the text: what was held back.
    std::string finish();

  private:
    std::vector<std::string> words_;  // none is empty
    std::string held_;
    bool found_ = false;
};

}  // namespace cleave
