// Puts a prompt's segments together.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_template.h"
#include "text/jinja_value.h"

namespace minim::native {

// Joins neighbours of one origin, as jinja::Text does; the calls to append() have the same form.
class SegmentWriter {
 public:
  void append(std::string_view text, bool from_template) {
    if (text.empty()) return;
    size_ += text.size();
    if (segments_.empty() || !segments_.back().ids.empty() ||
        segments_.back().from_template != from_template) {
      segments_.push_back({std::string(text), from_template, {}});
    } else {
      segments_.back().text += text;
    }
  }
  void append(const jinja::Text& text, size_t begin, size_t end) {
    for (const jinja::Text::Run& run : text.runs()) {
      if (run.end <= begin) continue;
      if (begin >= end) break;
      const size_t stop = std::min(end, run.end);
      append(text.view().substr(begin, stop - begin), run.from_template);
      begin = stop;
    }
  }
  void append(const jinja::Text& text) { append(text, 0, text.size()); }
  // Tokens that stand as they are; without any the text is left out as well.
  void replay(std::string text, std::vector<TokenId> ids) {
    if (ids.empty()) return;
    size_ += text.size();
    segments_.push_back({std::move(text), false, std::move(ids)});
  }

  size_t size() const { return size_; }  // bytes of text
  std::vector<PromptSegment> take() { return std::move(segments_); }

 private:
  std::vector<PromptSegment> segments_;
  size_t size_ = 0;
};

}  // namespace minim::native
