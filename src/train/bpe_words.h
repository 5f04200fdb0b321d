// Text to words, within which tokens merge: the pre-tokenizer of tokenizer.json as a row of stages, each of which cuts
// the pieces of the one before. Thread rule: a WordStage is immutable; a WordSplitter belongs to one thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/bpe_pattern.h"

namespace cleave {

struct WordStage {
    std::optional<Pattern> pattern;  // each match is a piece, and so is what stands between matches
    bool add_prefix_space = false;   // a piece that does not begin with a space gets one first
};

class WordSplitter {
  public:
    explicit WordSplitter(const std::vector<WordStage>& stages) {
        for (const WordStage& stage : stages) stages_.emplace_back(stage);
    }

    // visit(word) for each word of `text`, which is UTF-8 and not empty.
    template <class Visit>
    void for_each_word(std::string_view text, Visit&& visit) {
        cut(text, 0, visit);
    }

  private:
    struct Stage {
        explicit Stage(const WordStage& stage) : add_prefix_space(stage.add_prefix_space) {
            if (stage.pattern) matcher.emplace(*stage.pattern);
        }
        std::optional<Matcher> matcher;
        bool add_prefix_space;
        std::string prefixed;
    };

    template <class Visit>
    void cut(std::string_view text, std::size_t index, Visit&& visit) {
        if (index == stages_.size()) {
            visit(text);
            return;
        }
        Stage& stage = stages_[index];
        if (stage.add_prefix_space && text.front() != ' ') {
            stage.prefixed.assign(1, ' ');
            text = stage.prefixed.append(text);
        }
        if (!stage.matcher) {
            cut(text, index + 1, visit);
            return;
        }
        for (std::size_t at = 0; at < text.size();) {
            const Matcher::Match match = stage.matcher->find(text, at);
            if (match.begin > at) cut(text.substr(at, match.begin - at), index + 1, visit);
            if (match.end > match.begin) cut(text.substr(match.begin, match.end - match.begin), index + 1, visit);
            at = match.end;
        }
    }

    std::vector<Stage> stages_;
};

}  // namespace cleave
