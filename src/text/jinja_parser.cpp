// A recursive-descent parser, one function per precedence level, in jinja2's own order:
// conditional, or, and, not, comparison, + -, ~, * / // %, **, unary, postfix, filter and test. Two
// quirks are kept on purpose because templates rely on them: "-x|f" filters the negated value, and
// ** is left-associative. Depth is bounded twice: while descending (brackets, blocks) and per
// finished node (long left-leaning chains), so the evaluator and the tree's destructor may recurse.
// Here: its tokens and its errors.
#include "text/jinja_parser.h"

#include <fmt/format.h>

#include "text/jinja_lexer.h"
#include "text/jinja_parser_class.h"

namespace minim::jinja {

Result<Body> Parser::run() {
  Body body = statements({});
  if (error_) return *error_;
  return body;
}

Parser::Level::Level(Parser* parser) : p(parser) {
  if (++p->depth_ > kMaxTreeDepth)
    p->fail(fmt::format("nested deeper than {} levels", kMaxTreeDepth));
}

std::string Parser::describe(const LexedToken& token) {
  switch (token.type) {
    case Token::kEnd:
      return "end of template";
    case Token::kVariableEnd:
      return "end of print statement";
    case Token::kBlockEnd:
      return "end of statement block";
    case Token::kVariableBegin:
      return "begin of print statement";
    case Token::kBlockBegin:
      return "begin of statement block";
    case Token::kData:
      return "template data";
    case Token::kString:
      return "a string";
    default:
      return fmt::format("'{}'", token.value);
  }
}

std::nullptr_t Parser::fail(std::string what, int line) {
  if (!error_) {
    std::replace(what.begin(), what.end(), '\n', ' ');
    error_ = Error{Code::kInvalid, fmt::format("{}:{}: {}", name_, line ? line : cur().line, what)};
  }
  pos_ = tokens_.size() - 1;  // everything winds up at the end token
  return nullptr;
}

void Parser::expect_op(std::string_view spelling) {
  if (!skip_op(spelling)) fail(fmt::format("expected '{}', got {}", spelling, describe(cur())));
}

std::string Parser::expect_name() {
  if (!is(Token::kName)) {
    fail(fmt::format("expected a name, got {}", describe(cur())));
    return "";
  }
  std::string name = cur().value;
  next();
  return name;
}

void Parser::expect_word(std::string_view name) {
  if (!skip_word(name)) fail(fmt::format("expected '{}', got {}", name, describe(cur())));
}

void Parser::expect(Token type, std::string_view what) {
  if (!is(type)) {
    fail(fmt::format("expected {}, got {}", what, describe(cur())));
    return;
  }
  next();
}

Result<Body> parse(std::string_view source, std::string_view name) {
  if (source.size() > kMaxTemplateBytes) {
    return Error{Code::kInvalid,
                 fmt::format("{}: the template has {} bytes, at most {} are allowed", name,
                             source.size(), kMaxTemplateBytes)};
  }
  if (!valid_utf8(source))
    return Error{Code::kInvalid, fmt::format("{}: the template is not valid UTF-8", name)};
  Result<std::vector<LexedToken>> tokens = lex(source, name);
  if (!tokens) return tokens.error();
  return Parser(std::move(*tokens), name).run();
}

}  // namespace minim::jinja
