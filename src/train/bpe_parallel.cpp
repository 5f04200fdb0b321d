#include "train/bpe_parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "train/bpe_encoder.h"

namespace cleave {
namespace {

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_visible(char c) {
    return c > ' ' && c < 127;
}

bool may_be_cut(const Bpe& bpe) {
    const auto has_line_break = [](const auto& name) { return name.first.find('\n') != std::string::npos; };
    return bpe.cuts_at_lines && std::none_of(bpe.names.begin(), bpe.names.end(), has_line_break);
}

std::vector<std::string_view> chunks_of(std::string_view text, std::size_t least) {
    std::vector<std::string_view> chunks;
    for (std::size_t at = least; at < text.size(); ++at) {
        at = text.find('\n', at);
        if (at == std::string_view::npos || at + 1 >= text.size()) break;
        if (at == 0 || !is_visible(text[at - 1]) || !is_letter(text[at + 1])) continue;
        chunks.push_back(text.substr(0, at + 1));
        text.remove_prefix(at + 1);
        at = least - 1;
    }
    chunks.push_back(text);
    return chunks;
}

class Work {
  public:
    Work(const Bpe& bpe, std::vector<std::string_view> chunks, const BpeParallel& options)
        : bpe_(bpe), options_(options), chunks_(std::move(chunks)), tokens_(chunks_.size()) {}

    std::vector<Token> run() {
        const std::size_t threads = std::min(static_cast<std::size_t>(std::max(options_.threads, 1)), chunks_.size());
        std::vector<std::thread> others;
        for (std::size_t i = 1; i < threads; ++i) others.emplace_back([this] { encode_chunks(); });
        encode_chunks();
        for (std::thread& other : others) other.join();
        if (failure_) std::rethrow_exception(failure_);
        return joined();
    }

  private:
    void encode_chunks() {
        try {
            BpeEncoder encoder(bpe_);
            for (std::size_t i = next_++; i < chunks_.size(); i = next_++) {
                encoder.encode(chunks_[i], tokens_[i]);
                report(chunks_[i].size());
            }
        } catch (...) {
            const std::lock_guard lock(mutex_);
            if (!failure_) failure_ = std::current_exception();
            next_ = chunks_.size();
        }
    }

    void report(std::size_t bytes) {
        if (!options_.progress) return;
        const std::lock_guard lock(mutex_);
        done_ += bytes;
        options_.progress(done_);
    }

    std::vector<Token> joined() {
        if (tokens_.size() == 1) return std::move(tokens_.front());
        std::size_t count = 0;
        for (const auto& part : tokens_) count += part.size();
        std::vector<Token> all;
        all.reserve(count);
        for (auto& part : tokens_) {
            all.insert(all.end(), part.begin(), part.end());
            std::vector<Token>().swap(part);
        }
        return all;
    }

    const Bpe& bpe_;
    const BpeParallel& options_;
    std::vector<std::string_view> chunks_;
    std::vector<std::vector<Token>> tokens_;
    std::atomic<std::size_t> next_{0};
    std::mutex mutex_;
    std::size_t done_ = 0;        // guarded
    std::exception_ptr failure_;  // guarded until the threads are joined
};

}  // namespace

std::vector<Token> encode_bpe(const Bpe& bpe, std::string_view text, const BpeParallel& options) {
    const bool cut = may_be_cut(bpe) && options.chunk < text.size();
    return Work(bpe, cut ? chunks_of(text, std::max<std::size_t>(options.chunk, 1)) : std::vector{text}, options).run();
}

}  // namespace cleave
