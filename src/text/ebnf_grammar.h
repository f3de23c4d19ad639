// Grammars that are written as text: EBNF in the dialect that xgrammar, vLLM and llama.cpp (GBNF)
// share. Rules "name ::= expression", the whole is "root".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/grammar_rules.h"

namespace minim {

struct NamedGrammar {
  GrammarRules grammar;
  std::vector<std::string> names;  // of rules, for messages
};

// `text` must be valid UTF-8. With `tokens`, Token(id, …) and ExcludeToken(id, …) stand for one
// token of a list or outside it; ids must be below n_ids. kInvalid names line and column.
Result<NamedGrammar> parse_ebnf(std::string_view text, bool tokens, TokenId n_ids);

}  // namespace minim
