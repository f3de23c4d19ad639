// Statements: the tags, one function each, and the bodies between them. Every function begins
// behind its tag's name and ends before the closing "%}" of the block's last tag.
#include <fmt/format.h>

#include "text/jinja_parser_class.h"

namespace minim::jinja {

Body Parser::statements(Names until) {
  Body body;
  const Level level(this);
  while (!error_ && !is(Token::kEnd)) {
    if (is(Token::kData)) {
      auto s = statement_node(Stmt::Kind::kData);
      s->data = Text(cur().value, true);
      body.push_back(std::move(s));
      next();
    } else if (is(Token::kVariableBegin)) {
      auto s = statement_node(Stmt::Kind::kPrint);
      next();
      s->value = tuple(false, true, {}, false);
      expect(Token::kVariableEnd, "'}}'");
      body.push_back(std::move(s));
    } else {
      next();  // {%
      if (word(until)) return body;
      statement(&body);
      expect(Token::kBlockEnd, "'%}'");
    }
  }
  if (!error_ && until.size() > 0) {
    fail(fmt::format("unexpected end of template; the innermost open block is '{}' (line {})",
                     open_.empty() ? "" : open_.back().first,
                     open_.empty() ? 0 : open_.back().second));
  }
  return body;
}

Body Parser::block_body(Names until) {
  skip_op(":");
  expect(Token::kBlockEnd, "'%}'");
  return statements(until);
}

Body Parser::closed_body(std::string_view end) {
  Body body = block_body({end});
  if (!error_) next();
  return body;
}

std::unique_ptr<Stmt> Parser::statement_node(Stmt::Kind kind) {
  auto s = std::make_unique<Stmt>();
  s->kind = kind;
  s->line = cur().line;
  return s;
}

void Parser::statement(Body* body) {
  if (!is(Token::kName)) {
    fail("tag name expected");
    return;
  }
  const std::string tag = cur().value;
  using Parse = void (Parser::*)(Stmt*);
  struct Entry {
    std::string_view tag;
    Stmt::Kind kind;
    Parse parse;
  };
  static constexpr Entry kEntries[] = {
      {"if", Stmt::Kind::kIf, &Parser::if_},
      {"for", Stmt::Kind::kFor, &Parser::for_},
      {"set", Stmt::Kind::kSet, &Parser::set},
      {"macro", Stmt::Kind::kMacro, &Parser::macro},
      {"call", Stmt::Kind::kCall, &Parser::call_block},
      {"filter", Stmt::Kind::kFilterBlock, &Parser::filter_block},
      {"with", Stmt::Kind::kWith, &Parser::with},
      {"block", Stmt::Kind::kScope, &Parser::named_block},
      {"generation", Stmt::Kind::kScope, &Parser::generation},
      {"break", Stmt::Kind::kBreak, &Parser::loop_control},
      {"continue", Stmt::Kind::kContinue, &Parser::loop_control},
  };
  if (tag == "print") return print(body);
  for (const Entry& entry : kEntries) {
    if (entry.tag != tag) continue;
    auto s = statement_node(entry.kind);
    open_.emplace_back(tag, s->line);
    next();
    (this->*entry.parse)(s.get());
    open_.pop_back();
    body->push_back(std::move(s));
    return;
  }
  refuse_tag(tag);
}

void Parser::refuse_tag(const std::string& tag) {
  if (word({"extends", "include", "import", "from", "autoescape", "trans", "do"})) {
    fail(fmt::format("the tag '{}' is not supported in a chat template", tag));
  } else if (tag.substr(0, 3) == "end" && !open_.empty()) {
    fail(fmt::format("unexpected tag '{}'; the innermost open block is '{}' (line {})", tag,
                     open_.back().first, open_.back().second));
  } else {
    fail(fmt::format("unknown tag '{}'", tag));
  }
}

void Parser::print(Body* body) {
  next();
  bool first = true;
  while (!is(Token::kBlockEnd) && !error_) {
    if (!first) expect_op(",");
    first = false;
    auto s = statement_node(Stmt::Kind::kPrint);
    s->value = expression();
    body->push_back(std::move(s));
  }
}

void Parser::if_(Stmt* s) {
  for (;;) {
    ExprPtr test = tuple(false, false, {}, false);
    Body body = block_body({"elif", "else", "endif"});
    s->branches.emplace_back(std::move(test), std::move(body));
    if (error_) return;
    const bool more = word("elif");
    const bool otherwise = word("else");
    next();
    if (more) continue;
    if (otherwise) s->else_body = closed_body("endif");
    return;
  }
}

void Parser::for_(Stmt* s) {
  s->target = target({"in"});
  expect_word("in");
  s->value = tuple(false, false, {"recursive"}, false);
  if (skip_word("if")) s->test = expression();
  s->recursive = skip_word("recursive");
  ++loops_;
  fors_.push_back(s);
  s->body = block_body({"endfor", "else"});
  fors_.pop_back();
  --loops_;
  if (error_) return;
  const bool otherwise = word("else");
  next();
  if (otherwise) s->else_body = closed_body("endfor");
}

void Parser::set(Stmt* s) {
  s->target = target({}, true);
  if (skip_op("=")) {
    s->value = tuple(false, true, {}, false);
    return;
  }
  s->kind = Stmt::Kind::kSetBlock;
  s->value = filter_chain(nullptr);
  s->body = closed_body("endset");
}

void Parser::signature(Signature* sig) {
  expect_op("(");
  while (!op(")") && !error_) {
    if (!sig->names.empty()) expect_op(",");
    std::string name = expect_name();
    if (std::find(sig->names.begin(), sig->names.end(), name) != sig->names.end()) {
      fail(fmt::format("the parameter '{}' occurs twice", name));
    }
    sig->names.push_back(std::move(name));
    if (skip_op("=")) {
      sig->defaults.push_back(expression());
    } else if (!sig->defaults.empty()) {
      fail("a parameter without default follows one with a default");
    }
  }
  expect_op(")");
}

Body Parser::function_body(Signature* sig, std::string_view end) {
  macros_.push_back(sig);
  const int loops = std::exchange(loops_, 0);
  Body body = closed_body(end);
  loops_ = loops;
  macros_.pop_back();
  const auto param = [&](std::string_view n) {
    return std::find(sig->names.begin(), sig->names.end(), n) != sig->names.end();
  };
  const auto caller = std::find(sig->names.begin(), sig->names.end(), "caller");
  if (sig->uses_caller && caller != sig->names.end() &&
      static_cast<size_t>(sig->names.end() - caller) > sig->defaults.size()) {
    fail("the special parameter 'caller' must be omitted or have a default");
  }
  sig->uses_varargs &= !param("varargs");
  sig->uses_kwargs &= !param("kwargs");
  return body;
}

void Parser::macro(Stmt* s) {
  s->name = expect_name();
  signature(&s->signature);
  s->body = function_body(&s->signature, "endmacro");
}

void Parser::call_block(Stmt* s) {
  if (op("(")) signature(&s->signature);
  s->value = expression();
  if (!error_ && s->value->kind != Expr::Kind::kCall) fail("expected a call", s->line);
  s->body = function_body(&s->signature, "endcall");
}

void Parser::filter_block(Stmt* s) {
  s->value = filter_chain(nullptr, true);
  s->body = closed_body("endfilter");
}

void Parser::with(Stmt* s) {
  while (!is(Token::kBlockEnd) && !error_) {
    if (!s->bindings.empty()) expect_op(",");
    ExprPtr to = target({});
    expect_op("=");
    s->bindings.emplace_back(std::move(to), expression());
  }
  s->body = closed_body("endwith");
}

void Parser::named_block(Stmt* s) {
  s->name = expect_name();
  skip_word("scoped");
  const int loops = std::exchange(loops_, 0);
  s->body = closed_body("endblock");
  loops_ = loops;
  skip_word(s->name);
}

void Parser::generation(Stmt* s) {
  const int loops = std::exchange(loops_, 0);
  s->body = closed_body("endgeneration");
  loops_ = loops;
}

void Parser::loop_control(Stmt* s) {
  if (loops_ == 0) fail(fmt::format("'{}' outside a loop", open_.back().first), s->line);
}

}  // namespace minim::jinja
