// Operands: literals, names, brackets, and what may follow one (subscripts, calls, filters, tests);
// also assignment targets, which have the same form. Names are noted in the functions and loops
// around them, so that the evaluator provides varargs, kwargs, caller and loop only where they are
// read.
#include <fmt/format.h>

#include "text/jinja_parser_class.h"

namespace minim::jinja {

ExprPtr Parser::constant(Value value) {
  ExprPtr e = node(Expr::Kind::kConst, cur().line);
  e->constant = std::move(value);
  next();
  return e;
}

ExprPtr Parser::primary(bool with_namespace) {
  const LexedToken& token = cur();
  switch (token.type) {
    case Token::kName:
      return name_or_constant(with_namespace);
    case Token::kInteger:
      return constant(Value::integer(token.integer));
    case Token::kFloat:
      return constant(Value::real(token.real));
    case Token::kString: {
      ExprPtr e = node(Expr::Kind::kConst, token.line);
      std::string text;
      for (; is(Token::kString); next()) text += cur().value;
      e->constant = Value::string(Text(std::move(text), true));
      return e;
    }
    default:
      break;
  }
  if (skip_op("(")) {
    ExprPtr e = tuple(false, true, {}, true);
    expect_op(")");
    return e;
  }
  if (op("[")) return list();
  if (op("{")) return dict();
  return fail(fmt::format("unexpected {}", describe(token)));
}

ExprPtr Parser::name_or_constant(bool with_namespace) {
  const std::string& name = cur().value;
  if (name == "true" || name == "True") return constant(Value::boolean(true));
  if (name == "false" || name == "False") return constant(Value::boolean(false));
  if (name == "none" || name == "None") return constant(Value::none());
  ExprPtr e = node(Expr::Kind::kName, cur().line);
  e->name = name;
  next();
  if (with_namespace && skip_op(".")) {
    e->kind = Expr::Kind::kNsRef;
    e->attr = expect_name();
  }
  for (Signature* s : macros_) {
    s->uses_varargs |= e->name == "varargs";
    s->uses_kwargs |= e->name == "kwargs";
    s->uses_caller |= e->name == "caller";
  }
  if (e->name == "loop") {
    for (Stmt* loop : fors_) loop->uses_loop = true;
  }
  return e;
}

bool Parser::tuple_ends(Names stop_words) const {
  return is(Token::kVariableEnd) || is(Token::kBlockEnd) || is(Token::kEnd) || op(")") ||
         word(stop_words);
}

ExprPtr Parser::tuple(bool simple, bool conditional, Names stop_words, bool parentheses,
                      bool with_namespace) {
  const int line = cur().line;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (!error_) {
    if (!items.empty()) expect_op(",");
    if (tuple_ends(stop_words)) break;
    items.push_back(simple ? primary(with_namespace) : expression(conditional));
    if (!op(",")) break;
    is_tuple = true;
  }
  if (error_) return nullptr;
  if (!is_tuple && !items.empty()) return std::move(items.front());
  if (!is_tuple && !parentheses)
    return fail(fmt::format("expected an expression, got {}", describe(cur())));
  ExprPtr e = node(Expr::Kind::kTuple, line);
  e->kids = std::move(items);
  return done(std::move(e));
}

ExprPtr Parser::list() {
  ExprPtr e = node(Expr::Kind::kList, cur().line);
  next();
  while (!op("]") && !error_) {
    if (!e->kids.empty()) expect_op(",");
    if (op("]")) break;
    e->kids.push_back(expression());
  }
  expect_op("]");
  return done(std::move(e));
}

ExprPtr Parser::dict() {
  ExprPtr e = node(Expr::Kind::kDict, cur().line);
  next();
  while (!op("}") && !error_) {
    if (!e->kids.empty()) expect_op(",");
    if (op("}")) break;
    e->kids.push_back(expression());
    expect_op(":");
    e->kids.push_back(expression());
  }
  expect_op("}");
  return done(std::move(e));
}

ExprPtr Parser::postfix(ExprPtr e) {
  while (e && !error_) {
    if (op(".") || op("[")) {
      e = subscript(std::move(e));
    } else if (op("(")) {
      e = call(std::move(e));
    } else {
      break;
    }
  }
  return e;
}

ExprPtr Parser::filters_and_tests(ExprPtr e) {
  while (e && !error_) {
    if (op("|")) {
      e = filter_chain(std::move(e));
    } else if (word("is")) {
      e = test(std::move(e));
    } else if (op("(")) {
      e = call(std::move(e));
    } else {
      break;
    }
  }
  return e;
}

ExprPtr Parser::subscript(ExprPtr object) {
  const int line = cur().line;
  if (skip_op(".")) {
    if (is(Token::kInteger)) {
      return binary(Expr::Kind::kItem, std::move(object), constant(Value::integer(cur().integer)),
                    line);
    }
    ExprPtr e = node(Expr::Kind::kAttr, line);
    e->name = expect_name();
    e->kids.push_back(std::move(object));
    return done(std::move(e));
  }
  next();
  std::vector<ExprPtr> indices;
  bool comma = false;
  while (!op("]") && !error_) {
    if (!indices.empty()) {
      expect_op(",");
      comma = true;
    }
    indices.push_back(index());
  }
  expect_op("]");
  if (error_) return nullptr;
  if (indices.size() == 1)
    return binary(Expr::Kind::kItem, std::move(object), std::move(indices.front()), line);
  for (const ExprPtr& e : indices) {
    if (e->kind == Expr::Kind::kSlice)
      return fail("a slice inside a tuple index is not supported", line);
  }
  if (!comma) return fail("an empty index", line);
  ExprPtr e = node(Expr::Kind::kTuple, line);
  e->kids = std::move(indices);
  return binary(Expr::Kind::kItem, std::move(object), done(std::move(e)), line);
}

ExprPtr Parser::index() {
  const int line = cur().line;
  ExprPtr parts[3];
  if (!op(":")) {
    parts[0] = expression();
    if (!op(":")) return std::move(parts[0]);
  }
  next();
  if (!op(":") && !op("]") && !op(",")) parts[1] = expression();
  if (skip_op(":") && !op("]") && !op(",")) parts[2] = expression();
  ExprPtr e = node(Expr::Kind::kSlice, line);
  for (ExprPtr& part : parts) e->kids.push_back(std::move(part));
  return done(std::move(e));
}

void Parser::arguments(Expr* e) {
  expect_op("(");
  bool comma = false;
  const std::string kBad = "invalid order of arguments in a call";
  while (!op(")") && !error_) {
    if (comma) expect_op(",");
    if (op(")")) break;
    if (skip_op("*")) {
      if (e->star || e->star_star) fail(kBad);
      e->star = expression();
    } else if (skip_op("**")) {
      if (e->star_star) fail(kBad);
      e->star_star = expression();
    } else if (is(Token::kName) && look().type == Token::kOperator && look().value == "=") {
      if (e->star_star) fail(kBad);
      std::string name = cur().value;
      for (const auto& [seen, value] : e->named) {
        if (seen == name) fail(fmt::format("the argument '{}' is given twice", name));
      }
      next();
      next();
      e->named.emplace_back(std::move(name), expression());
    } else {
      if (e->star || e->star_star || !e->named.empty()) fail(kBad);
      e->kids.push_back(expression());
    }
    comma = true;
  }
  expect_op(")");
}

ExprPtr Parser::call(ExprPtr callee) {
  ExprPtr e = node(Expr::Kind::kCall, cur().line);
  e->kids.push_back(std::move(callee));
  arguments(e.get());
  return done(std::move(e));
}

std::string Parser::dotted_name() {
  std::string name = expect_name();
  while (skip_op(".")) name.append(".").append(expect_name());
  return name;
}

ExprPtr Parser::filter_chain(ExprPtr input, bool inline_start) {
  while ((op("|") || inline_start) && !error_) {
    if (!inline_start) next();
    inline_start = false;
    ExprPtr e = node(Expr::Kind::kFilter, cur().line);
    e->name = dotted_name();
    e->kids.push_back(std::move(input));
    if (op("(")) arguments(e.get());
    input = done(std::move(e));
  }
  return input;
}

ExprPtr Parser::test(ExprPtr subject) {
  ExprPtr e = node(Expr::Kind::kTest, cur().line);
  next();
  const bool negated = skip_word("not");
  e->name = dotted_name();
  e->kids.push_back(std::move(subject));
  if (op("(")) {
    arguments(e.get());
  } else if ((is(Token::kName) && !word({"else", "or", "and"})) || is(Token::kString) ||
             is(Token::kInteger) || is(Token::kFloat) || op("[") || op("{")) {
    if (word("is")) return fail("tests cannot be chained with is");
    const Level level(this);
    if (!error_) e->kids.push_back(postfix(primary()));
  }
  e = done(std::move(e));
  if (!negated || !e) return e;
  ExprPtr inverse = node(Expr::Kind::kNot, e->line);
  inverse->kids.push_back(std::move(e));
  return done(std::move(inverse));
}

ExprPtr Parser::target(Names stop_words, bool with_namespace) {
  const int line = cur().line;
  ExprPtr e = tuple(true, true, stop_words, false, with_namespace);
  check_target(e.get(), line);
  return e;
}

void Parser::check_target(const Expr* e, int line) {
  if (!e) return;
  if (e->kind == Expr::Kind::kTuple) {
    for (const ExprPtr& kid : e->kids) check_target(kid.get(), line);
  } else if (e->kind != Expr::Kind::kName && e->kind != Expr::Kind::kNsRef) {
    fail("cannot assign to this expression", line);
  }
}

}  // namespace minim::jinja
