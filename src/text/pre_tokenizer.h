// From text to the pieces that are merged on their own.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/split_o200k.h"
#include "text/split_pcre2.h"

namespace minim {

class PreTokenizer {
 public:
  // `spec` is the "pre_tokenizer" member of a tokenizer.json: Split (Regex or String; all five
  // behaviours, invert), ByteLevel without prefix space, or a Sequence of them that ends in
  // ByteLevel. Anything else is refused by name; messages begin with `name`.
  static Result<PreTokenizer> parse(const SortedJson& spec, std::string_view name);

  // Buffers that calls reuse; one per thread, any PreTokenizer.
  struct Scratch {
    std::vector<Segment> segments;
    std::vector<std::string_view> pieces, next;
  };

  // Calls take(piece) for the pieces in order; they point into `text`. Well-formed text is cut as
  // the file says (which drops what a "Removed" pattern removes); each run of bytes that are not
  // UTF-8 is a piece of its own. Thread-safe.
  template <typename Take>
  void for_each_piece(std::string_view text, Scratch& scratch, Take&& take) const;

 private:
  enum class Behavior { kRemoved, kIsolated, kContiguous, kMergedWithPrevious, kMergedWithNext };
  struct Step {
    SplitPattern pattern;
    Behavior behavior;
    bool invert;
  };

  static Result<Step> parse_split(const SortedJson& spec, std::string_view name);
  static Result<Behavior> parse_behavior(const SortedJson& spec, std::string_view name);
  // The splitter by hand that does what this step alone does, if there is one.
  static std::optional<O200kSplitter> by_hand(const SortedJson& spec, const Step& step);
  Result<Ok> add_byte_level(const SortedJson& spec, std::string_view name);
  Result<Ok> add(const SortedJson& spec, std::string_view name);
  static void apply(const Step& step, std::string_view text, std::vector<Segment>& segments,
                    std::vector<std::string_view>& pieces);
  // What the steps make of well-formed text, in scratch.pieces.
  void apply_steps(std::string_view text, Scratch& scratch) const;

  std::vector<Step> steps_;
  std::optional<O200kSplitter> by_hand_;  // does what steps_ do, faster
  bool has_byte_level_ = false;
};

// Bytes at the start of `text`, not empty, that are either all well-formed or all not.
struct Stretch {
  size_t length;
  bool well_formed;
};
Stretch first_stretch(std::string_view text);

template <typename Take>
void PreTokenizer::for_each_piece(std::string_view text, Scratch& scratch, Take&& take) const {
  while (!text.empty()) {
    const Stretch stretch = first_stretch(text);
    const std::string_view now = text.substr(0, stretch.length);
    if (!stretch.well_formed) {
      take(now);
    } else if (by_hand_) {
      for (size_t at = 0; at < now.size();) {
        const size_t end = by_hand_->piece_end(now, at);
        take(now.substr(at, end - at));
        at = end;
      }
    } else {
      apply_steps(now, scratch);
      for (const std::string_view piece : scratch.pieces) take(piece);
    }
    text.remove_prefix(stretch.length);
  }
}

}  // namespace minim
