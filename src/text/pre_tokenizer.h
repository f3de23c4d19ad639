// From text to the pieces that are merged on their own.
#pragma once

#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/split_pcre2.h"

namespace minim {

class PreTokenizer {
 public:
  // `spec` is the "pre_tokenizer" member of a tokenizer.json: Split (Regex or String; all five
  // behaviours, invert), ByteLevel without prefix space, or a Sequence of them that ends in
  // ByteLevel. Anything else is refused by name; messages begin with `name`.
  static Result<PreTokenizer> parse(const SortedJson& spec, std::string_view name);

  // Appends the pieces in order. Well-formed text is cut as the file says (which drops what a
  // "Removed" pattern removes); each run of bytes that are not UTF-8 is a piece of its own.
  // Thread-safe; the pieces point into `text`.
  void split(std::string_view text, std::vector<std::string_view>& pieces) const;

 private:
  enum class Behavior { kRemoved, kIsolated, kContiguous, kMergedWithPrevious, kMergedWithNext };
  struct Step {
    SplitPattern pattern;
    Behavior behavior;
    bool invert;
  };

  static Result<Step> parse_split(const SortedJson& spec, std::string_view name);
  static Result<Behavior> parse_behavior(const SortedJson& spec, std::string_view name);
  Result<Ok> add_byte_level(const SortedJson& spec, std::string_view name);
  Result<Ok> add(const SortedJson& spec, std::string_view name);
  static void apply(const Step& step, std::string_view text, std::vector<Segment>& segments,
                    std::vector<std::string_view>& pieces);

  std::vector<Step> steps_;
  bool has_byte_level_ = false;
};

}  // namespace minim
