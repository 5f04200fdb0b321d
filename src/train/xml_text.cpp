#include "train/xml_text.h"

#include "base/utf8.h"

namespace cleave {

std::string xml_text(std::string_view text) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
        const Utf8Step step = utf8_step(text, at);
        const char32_t c = step.code_point;
        at += step.length;
        if (c == U'<')
            out += "&lt;";
        else if (c == U'&')
            out += "&amp;";
        else
            append_utf8(out, c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xfffe || c == 0xffff ? 0xfffd : c);
    }
    return out;
}

}  // namespace cleave
