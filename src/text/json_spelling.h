// JSON texts as grammars and as strings, in the one spelling that structured output has: ", " and
// ": " between things, no other white space.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "text/grammar_rules.h"

namespace minim {

// The text of a value in that spelling; characters beyond ASCII stay as they are.
std::string spaced_json(const Json& value);

// A string's text, quotes included.
GrammarExpr json_string_of(std::string_view value);

// Any one character inside a JSON string, in any spelling of it: raw, with a short escape, as
// \uXXXX or as a pair of those. Half a pair is none. Each counts as one for lengths.
GrammarExpr any_json_char();
// Any one that stands for itself.
GrammarExpr raw_json_char();

// Any number of such characters and the quote that ends the string, given the rule that this is: it
// repeats itself. The library's masks of this form cost a fortieth of those of a repetition.
GrammarExpr rest_of_json_string(size_t rule);

// An expression over plain characters, as it is written inside a JSON string: characters that must
// be escaped are, in their shortest form, and no others.
GrammarExpr inside_json_string(const GrammarExpr& plain);

// A property name that is none of `taken`, quotes included; each such name has one spelling. The
// rules are appended to `rules`.
GrammarExpr other_name(const std::vector<std::string>& taken, std::vector<GrammarExpr>& rules);

}  // namespace minim
