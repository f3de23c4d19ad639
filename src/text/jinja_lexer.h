// Splits template source into tokens, as jinja2 3.1.6 does with trim_blocks and lstrip_blocks on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja_value.h"

namespace minim::jinja {

enum class Token {
  kData,           // text outside tags
  kVariableBegin,  // {{
  kVariableEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kString,  // value: unescaped
  kInteger,
  kFloat,
  kOperator,  // value: its spelling
  kEnd,
};

struct LexedToken {
  Token type = Token::kEnd;
  std::string value;
  Int integer = 0;
  double real = 0;
  int line = 1;
};

// Tokens of the whole source; the last one is kEnd. Comments are dropped, `{% raw %}` becomes data,
// whitespace control is applied, line ends become "\n" and one trailing line end is dropped. The
// source must be valid UTF-8. Errors are "NAME:LINE: what".
Result<std::vector<LexedToken>> lex(std::string_view source, std::string_view name);

}  // namespace minim::jinja
