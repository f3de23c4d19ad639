// The characters behind an NS token: one tag, or no tag.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace minim {

struct OutputTag {
  enum class Kind : uint8_t { kBlock, kEndBlock, kInvoke, kEndInvoke, kOpen, kClose };
  Kind kind = Kind::kBlock;
  std::string name;  // of kInvoke (trimmed, not empty) and kOpen (as written)
  size_t level = 0;  // of kClose: the open element that it names, 0 = outermost
};

// Which tags mean something where the NS token stands.
struct TagPlace {
  bool in_block = false, in_call = false, may_open = false;
  std::vector<std::string_view> open_elements;  // names, outermost first; at most 64
};

// <invoke name=N>, with N in double quotes, single quotes or bare.
class InvokeMatcher {
 public:
  enum class Match : uint8_t { kDead, kPartial, kWhole };
  Match push(char byte);
  const std::string& name() const { return name_; }  // after kWhole: trimmed, not empty

 private:
  enum class At : uint8_t { kTag, kGap, kName, kEquals, kValue, kQuoted, kBare, kEnd };
  Match word(char byte, std::string_view word, At next);
  Match value(char byte);
  Match end();

  At at_ = At::kTag;
  size_t matched_ = 0;  // bytes of the word that is under way
  char quote_ = 0;
  std::string name_;
};

// Fed byte by byte; decides as soon as the characters can be one tag only, or none. Work per byte
// is bounded by the open elements.
class TagScanner {
 public:
  enum class Verdict : uint8_t { kUndecided, kTag, kNoTag };
  static constexpr size_t kMaxCharacters = 1024;  // that may stay undecided
  static constexpr size_t kMaxElements = 64;

  // What `place` points to must live until the verdict.
  void start(TagPlace place);
  Verdict push(char byte);
  const OutputTag& tag() const { return tag_; }           // after kTag
  std::string take_bytes() { return std::move(bytes_); }  // all since start

 private:
  using Match = InvokeMatcher::Match;
  Match literals(char byte);
  Match closers(char byte);
  Match opener(char byte);
  Match invoke(char byte);

  TagPlace place_;
  std::string bytes_;
  size_t characters_ = 0;
  size_t position_ = 0;  // bytes of the tag so far; white space in front of it does not count
  uint64_t open_literals_ = 0, open_closers_ = 0;  // bit i: number i still fits
  bool opener_fits_ = false, invoke_fits_ = false;
  InvokeMatcher invoke_;
  OutputTag tag_;
};

}  // namespace minim
