// A grammar as data: what regular expressions, choices, EBNF and JSON schemas become before a
// library compiles them. Here it is checked and measured, so that the library only ever sees what
// it can do in bounded time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/char_set.h"
#include "text/vocabulary.h"

namespace minim {

struct GrammarExpr {
  enum class Kind : uint8_t {
    kText,      // these characters (UTF-8); the empty text too
    kChars,     // one character of the set; an empty set matches nothing
    kSequence,  // all parts in order
    kChoice,    // one of the parts; without parts nothing
    kRepeat,    // parts[0], min..max times; max -1: no end
    kRule,      // a rule by number
    kToken,     // one token of the list
    kNotToken,  // one token outside the list
  };
  Kind kind = Kind::kText;
  std::string text;
  CharSet chars;
  std::vector<GrammarExpr> parts;
  int64_t min = 0;
  int64_t max = -1;
  size_t rule = 0;
  std::vector<TokenId> tokens;

  bool empty_text() const { return kind == Kind::kText && text.empty(); }
  bool nothing() const {
    return (kind == Kind::kChars && chars.empty()) || (kind == Kind::kChoice && parts.empty());
  }
};

GrammarExpr text_expr(std::string_view text);
GrammarExpr chars_expr(CharSet chars);
GrammarExpr rule_expr(size_t rule);
// These simplify: sequences in sequences and choices in choices are one, texts in a row are one,
// nothing in a sequence is nothing, {1,1} is the part itself.
GrammarExpr sequence_expr(std::vector<GrammarExpr> parts);
GrammarExpr choice_expr(std::vector<GrammarExpr> parts);
GrammarExpr repeat_expr(GrammarExpr part, int64_t min, int64_t max);

// Adds to the number of every rule that the expression refers to.
void move_rules(GrammarExpr& expr, size_t by);

struct GrammarRules {
  std::vector<GrammarExpr> rules;  // rule 0 is the whole
};

// Nesting of groups in one rule.
inline constexpr int kMaxExprDepth = 128;

// What a grammar may cost. The library's time cannot be cut off from outside; it follows these
// counts, which are taken before it starts.
struct GrammarCost {
  size_t positions = 0;  // places in rules after repetitions are unrolled
  size_t rules = 0;
};
GrammarCost cost_of(const GrammarRules& grammar);

// kInvalid when some rule that is used has no text (it never ends, or nothing satisfies it), or
// none of at most kMaxForcedText characters. names[i] is rule i's, for the message.
inline constexpr uint64_t kMaxForcedText = uint64_t{1} << 20;
Result<Ok> check_rules(const GrammarRules& grammar, const std::vector<std::string>& names);

// Cuts off what has no text: alternatives, and repetitions that may be absent; then drops the rules
// that are no longer used, and their names. Rule 0 is left without parts if the whole has no text.
void prune(GrammarRules& grammar, std::vector<std::string>& names);

// The grammar in the library's EBNF, root rule "root".
std::string print_ebnf(const GrammarRules& grammar);

}  // namespace minim
