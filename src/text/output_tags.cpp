// All tags that may stand here are matched side by side, one byte at a time; a tag that does not
// fit falls out, and when none is left the characters are text at once. Collecting to the next '>'
// and looking then would hold text back that cannot be a tag any more, and a quoted name may hold
// a '>' itself.
#include "text/output_tags.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "text/value_text.h"

namespace minim {
namespace {

using Match = InvokeMatcher::Match;

bool is_space(char byte) { return kMarkupSpace.find(byte) != std::string_view::npos; }

struct Literal {
  std::string_view text;
  OutputTag::Kind kind;
};
constexpr Literal kLiterals[] = {{"<tool_call>", OutputTag::Kind::kBlock},
                                 {"</tool_call>", OutputTag::Kind::kEndBlock},
                                 {"</invoke>", OutputTag::Kind::kEndInvoke}};

// Byte `at` of </NAME>; 0 behind its end.
char closer_byte(std::string_view name, size_t at) {
  if (at < 2) return "</"[at];
  if (at - 2 < name.size()) return name[at - 2];
  return at - 2 == name.size() ? '>' : '\0';
}

}  // namespace

Match InvokeMatcher::word(char byte, std::string_view word, At next) {
  if (byte != word[matched_]) return Match::kDead;
  if (++matched_ == word.size()) {
    matched_ = 0;
    at_ = next;
  }
  return Match::kPartial;
}

Match InvokeMatcher::value(char byte) {
  if (byte == '"' || byte == '\'') {
    quote_ = byte;
    at_ = At::kQuoted;
    return Match::kPartial;
  }
  at_ = At::kBare;
  return push(byte);
}

Match InvokeMatcher::end() {
  name_ = std::string(trim_markup_space(name_));
  return name_.empty() ? Match::kDead : Match::kWhole;
}

Match InvokeMatcher::push(char byte) {
  constexpr std::string_view kTag = "<invoke", kName = "name", kLineEnds = "\r\n",
                             kNotBare = "<\"'";
  const bool space = is_space(byte);
  switch (at_) {
    case At::kTag:
      return word(byte, kTag, At::kGap);
    case At::kGap:
      at_ = At::kName;
      return space ? Match::kPartial : Match::kDead;
    case At::kName:
      return space && matched_ == 0 ? Match::kPartial : word(byte, kName, At::kEquals);
    case At::kEquals:
      return space ? Match::kPartial : word(byte, "=", At::kValue);
    case At::kValue:
      return space ? Match::kPartial : value(byte);
    case At::kQuoted:
      if (kLineEnds.find(byte) != std::string_view::npos) return Match::kDead;
      if (byte == quote_) at_ = At::kEnd;
      if (byte != quote_) name_ += byte;
      return Match::kPartial;
    case At::kBare:
      if (byte == '>') return end();
      if (kNotBare.find(byte) != std::string_view::npos) return Match::kDead;
      if (space) at_ = At::kEnd;
      if (!space) name_ += byte;
      return Match::kPartial;
    case At::kEnd:
      if (byte == '>') return end();
      return space ? Match::kPartial : Match::kDead;
  }
  return Match::kDead;
}

void TagScanner::start(TagPlace place) {
  CHECK(place.open_elements.size() <= kMaxElements);
  const size_t n = place.open_elements.size();
  place_ = std::move(place);
  bytes_.clear();
  characters_ = position_ = 0;
  open_literals_ = place_.in_call ? 0b111 : place_.in_block ? 0b011 : 0b001;
  open_closers_ = n == kMaxElements ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
  opener_fits_ = place_.may_open;
  invoke_fits_ = place_.in_block;
  invoke_ = {};
  tag_ = {};
}

Match TagScanner::literals(char byte) {
  for (uint64_t left = open_literals_; left != 0; left &= left - 1) {
    const auto i = static_cast<size_t>(std::countr_zero(left));
    const Literal& literal = kLiterals[i];
    if (literal.text[position_] != byte) {
      open_literals_ &= ~(uint64_t{1} << i);
    } else if (position_ + 1 == literal.text.size()) {
      tag_.kind = literal.kind;
      return Match::kWhole;
    }
  }
  return open_literals_ == 0 ? Match::kDead : Match::kPartial;
}

// Of several open elements with one name the innermost is meant.
Match TagScanner::closers(char byte) {
  for (uint64_t left = open_closers_; left != 0;) {
    const auto i = static_cast<size_t>(63 - std::countl_zero(left));
    left &= ~(uint64_t{1} << i);
    const std::string_view name = place_.open_elements[i];
    if (closer_byte(name, position_) != byte) {
      open_closers_ &= ~(uint64_t{1} << i);
    } else if (position_ == name.size() + 2) {
      tag_.kind = OutputTag::Kind::kClose;
      tag_.level = i;
      return Match::kWhole;
    }
  }
  return open_closers_ == 0 ? Match::kDead : Match::kPartial;
}

// <NAME>: any name without angle bracket and line end that does not begin with a slash. One that
// begins with "invoke" and white space is reserved for the start of a call.
Match TagScanner::opener(char byte) {
  constexpr std::string_view kInvoke = "invoke";
  if (!opener_fits_) return Match::kDead;
  opener_fits_ = false;
  if (position_ == 0) {
    opener_fits_ = byte == '<';
  } else if (byte == '>') {
    if (!is_markup_space(tag_.name)) {
      tag_.kind = OutputTag::Kind::kOpen;
      return Match::kWhole;
    }
  } else {
    const bool slash = tag_.name.empty() && byte == '/';
    const bool reserved = tag_.name == kInvoke && is_space(byte);
    opener_fits_ = !slash && !reserved && byte != '<' && byte != '\r' && byte != '\n';
    tag_.name += byte;
  }
  return opener_fits_ ? Match::kPartial : Match::kDead;
}

Match TagScanner::invoke(char byte) {
  if (!invoke_fits_) return Match::kDead;
  const Match match = invoke_.push(byte);
  invoke_fits_ = match != Match::kDead;
  return match;
}

TagScanner::Verdict TagScanner::push(char byte) {
  const bool continues = (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
  characters_ += continues ? 0 : 1;
  bytes_ += byte;
  if (characters_ > kMaxCharacters) return Verdict::kNoTag;
  if (position_ == 0 && is_space(byte)) return Verdict::kUndecided;
  // An open element comes before the call, should it be called "invoke" itself.
  const Match close = closers(byte);
  if (close == Match::kWhole) return Verdict::kTag;
  const Match literal = literals(byte);
  if (literal == Match::kWhole) return Verdict::kTag;
  const Match call = invoke(byte);
  if (call == Match::kWhole) {
    tag_.kind = OutputTag::Kind::kInvoke;
    tag_.name = invoke_.name();
    return Verdict::kTag;
  }
  const Match open = opener(byte);
  if (open == Match::kWhole) return Verdict::kTag;
  ++position_;
  const bool dead = std::max({close, literal, call, open}) == Match::kDead;
  return dead ? Verdict::kNoTag : Verdict::kUndecided;
}

}  // namespace minim
