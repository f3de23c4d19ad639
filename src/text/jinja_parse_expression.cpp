// Operators: one function per precedence level, the loosest first, down to a unary sign and what
// follows an operand.
#include <fmt/format.h>

#include "text/jinja_parser_class.h"

namespace minim::jinja {

ExprPtr Parser::node(Expr::Kind kind, int line) {
  auto e = std::make_unique<Expr>();
  e->kind = kind;
  e->line = line;
  return e;
}

ExprPtr Parser::done(ExprPtr e) {
  if (!e) return e;
  const auto grow = [&](const ExprPtr& kid) {
    if (kid) e->depth = std::max(e->depth, kid->depth + 1);
  };
  for (const ExprPtr& kid : e->kids) grow(kid);
  for (const auto& [name, kid] : e->named) grow(kid);
  grow(e->star);
  grow(e->star_star);
  if (e->depth > kMaxTreeDepth)
    return fail(fmt::format("an expression nests deeper than {} levels", kMaxTreeDepth), e->line);
  return e;
}

ExprPtr Parser::binary(Expr::Kind kind, ExprPtr left, ExprPtr right, int line) {
  ExprPtr e = node(kind, line);
  e->kids.push_back(std::move(left));
  e->kids.push_back(std::move(right));
  return done(std::move(e));
}

ExprPtr Parser::expression(bool conditional) {
  const Level level(this);
  if (error_) return nullptr;
  return conditional ? cond() : or_();
}

ExprPtr Parser::cond() {
  int line = cur().line;
  ExprPtr value = or_();
  while (skip_word("if")) {
    ExprPtr e = node(Expr::Kind::kCond, line);
    e->kids.push_back(or_());
    e->kids.push_back(std::move(value));
    e->kids.push_back(skip_word("else") ? expression() : nullptr);
    value = done(std::move(e));
    line = cur().line;
  }
  return value;
}

ExprPtr Parser::or_() {
  const int line = cur().line;
  ExprPtr left = and_();
  while (skip_word("or")) left = binary(Expr::Kind::kOr, std::move(left), and_(), line);
  return left;
}

ExprPtr Parser::and_() {
  const int line = cur().line;
  ExprPtr left = not_();
  while (skip_word("and")) left = binary(Expr::Kind::kAnd, std::move(left), not_(), line);
  return left;
}

ExprPtr Parser::not_() {
  if (!word("not")) return compare();
  const Level level(this);
  ExprPtr e = node(Expr::Kind::kNot, cur().line);
  next();
  e->kids.push_back(error_ ? nullptr : not_());
  return done(std::move(e));
}

bool Parser::compare_op(Op* out) {
  static constexpr std::pair<std::string_view, Op> kOps[] = {{"==", Op::kEq}, {"!=", Op::kNe},
                                                             {"<", Op::kLt},  {"<=", Op::kLe},
                                                             {">", Op::kGt},  {">=", Op::kGe}};
  for (const auto& [spelling, meaning] : kOps) {
    if (!skip_op(spelling)) continue;
    *out = meaning;
    return true;
  }
  if (skip_word("in")) {
    *out = Op::kIn;
    return true;
  }
  if (word("not") && look().type == Token::kName && look().value == "in") {
    next();
    next();
    *out = Op::kNotIn;
    return true;
  }
  return false;
}

ExprPtr Parser::compare() {
  const int line = cur().line;
  ExprPtr first = sum();
  ExprPtr e;
  Op meaning;
  while (compare_op(&meaning)) {
    if (!e) {
      e = node(Expr::Kind::kCompare, line);
      e->kids.push_back(std::move(first));
    }
    e->ops.push_back(meaning);
    e->kids.push_back(sum());
  }
  return e ? done(std::move(e)) : std::move(first);
}

ExprPtr Parser::left_chain(Table table, ExprPtr (Parser::*operand)()) {
  const int line = cur().line;
  ExprPtr left = (this->*operand)();
  for (;;) {
    const auto found = std::find_if(table.begin(), table.end(),
                                    [&](const auto& entry) { return op(entry.first); });
    if (found == table.end()) return left;
    next();
    left = binary(Expr::Kind::kBinary, std::move(left), (this->*operand)(), line);
    if (!left) return nullptr;
    left->ops.push_back(found->second);
  }
}

ExprPtr Parser::product() {
  return left_chain({{"*", Op::kMul}, {"/", Op::kDiv}, {"//", Op::kFloorDiv}, {"%", Op::kMod}},
                    &Parser::power);
}

ExprPtr Parser::concat() {
  const int line = cur().line;
  ExprPtr first = product();
  if (!op("~")) return first;
  ExprPtr e = node(Expr::Kind::kConcat, line);
  e->kids.push_back(std::move(first));
  while (skip_op("~")) e->kids.push_back(product());
  return done(std::move(e));
}

ExprPtr Parser::unary(bool with_filter) {
  const Level level(this);
  if (error_) return nullptr;
  ExprPtr e;
  if (op("-") || op("+")) {
    e = node(op("-") ? Expr::Kind::kNeg : Expr::Kind::kPos, cur().line);
    next();
    e->kids.push_back(unary(false));
    e = done(std::move(e));
  } else {
    e = primary();
  }
  e = postfix(std::move(e));
  return with_filter ? filters_and_tests(std::move(e)) : std::move(e);
}

}  // namespace minim::jinja
