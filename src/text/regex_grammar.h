// Regular expressions as grammars: the syntax of ECMA-262 as JSON schemas use it, without what no
// grammar can express (look-around, back-references, word boundaries).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "text/grammar_rules.h"

namespace minim {

// The texts that match the whole of `pattern` (valid UTF-8): no rules in it. kInvalid or
// kUnsupported names the byte and what stands there. ^ and $ may stand at the ends of alternatives.
// \d and \w are ASCII, \s is Unicode's white space, as ECMA-262 has it; the dot takes no line end.
Result<GrammarExpr> regex_whole(std::string_view pattern);

// The texts in which `pattern` matches somewhere, as JSON schema's "pattern" means it: what no
// ^ or $ binds may have anything in front or behind.
Result<GrammarExpr> regex_search(std::string_view pattern);

// Characters of the shortest and the longest text; the longest is -1 without an end. No rules in
// it.
struct LengthRange {
  int64_t least = 0;
  int64_t most = 0;
};
LengthRange length_range(const GrammarExpr& expr);

// Narrows an expression to texts of least..most characters (most -1: no end). Exact, or nothing if
// that takes more than narrowing one repetition.
Result<GrammarExpr> with_length(GrammarExpr expr, int64_t least, int64_t most);

}  // namespace minim
