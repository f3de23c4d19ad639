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
  // Room for as many segments, so that they need not move.
  void reserve(size_t segments) { segments_.reserve(segments); }

  void append(std::string_view text, bool from_template) {
    if (text.empty()) return;
    size_ += text.size();
    if (from_template) {
      written_ += text;
      return;
    }
    if (written_.empty() && !segments_.empty() && !segments_.back().from_template &&
        segments_.back().ids.empty()) {
      segments_.back().text += text;
      return;
    }
    end_written();
    segments_.emplace_back().text = text;
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
    end_written();
    segments_.push_back({std::move(text), false, std::move(ids)});
  }

  size_t size() const { return size_; }  // bytes of text
  std::vector<PromptSegment> take() {
    end_written();
    return std::move(segments_);
  }

 private:
  void end_written() {
    if (written_.empty()) return;
    PromptSegment& segment = segments_.emplace_back();
    segment.text = written_;
    segment.from_template = true;
    written_.clear();
  }

  std::vector<PromptSegment> segments_;
  std::string written_;  // by the template since the last segment: often many short pieces
  size_t size_ = 0;
};

}  // namespace minim::native
