// The parser as a class, shared by the files that implement it: tokens and errors in
// jinja_parser.cpp, operators in jinja_parse_expression.cpp, what they stand between in
// jinja_parse_operand.cpp, tags in jinja_parse_statement.cpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja_lexer.h"
#include "text/jinja_parser.h"

namespace minim::jinja {

class Parser {
 public:
  Parser(std::vector<LexedToken> tokens, std::string_view name)
      : tokens_(std::move(tokens)), name_(name) {}

  // The whole template. To be called once.
  Result<Body> run();

 private:
  using Names = std::initializer_list<std::string_view>;
  using Table = std::initializer_list<std::pair<std::string_view, Op>>;

  // --- tokens ---
  const LexedToken& cur() const { return tokens_[std::min(pos_, tokens_.size() - 1)]; }
  const LexedToken& look() const { return tokens_[std::min(pos_ + 1, tokens_.size() - 1)]; }
  void next() { ++pos_; }
  bool is(Token type) const { return cur().type == type; }
  bool op(std::string_view spelling) const {
    return is(Token::kOperator) && cur().value == spelling;
  }
  bool word(std::string_view name) const { return is(Token::kName) && cur().value == name; }
  bool word(Names names) const {
    return is(Token::kName) && std::find(names.begin(), names.end(), cur().value) != names.end();
  }
  bool skip_op(std::string_view spelling) {
    if (!op(spelling)) return false;
    next();
    return true;
  }
  bool skip_word(std::string_view name) {
    if (!word(name)) return false;
    next();
    return true;
  }

  static std::string describe(const LexedToken& token);
  // Keeps the first error and jumps to the end of the tokens, where every rule winds up.
  std::nullptr_t fail(std::string what, int line = 0);
  void expect_op(std::string_view spelling);
  std::string expect_name();
  void expect_word(std::string_view name);
  void expect(Token type, std::string_view what);

  // Counts one level of descent for as long as it lives.
  struct Level {
    explicit Level(Parser* parser);
    ~Level() { --p->depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    Parser* p;
  };

  // --- operators ---
  ExprPtr node(Expr::Kind kind, int line);
  // Every finished node passes here: it sets the depth.
  ExprPtr done(ExprPtr e);
  ExprPtr binary(Expr::Kind kind, ExprPtr left, ExprPtr right, int line);
  ExprPtr expression(bool conditional = true);
  ExprPtr cond();
  ExprPtr or_();
  ExprPtr and_();
  ExprPtr not_();
  bool compare_op(Op* out);
  ExprPtr compare();
  ExprPtr left_chain(Table table, ExprPtr (Parser::*operand)());
  ExprPtr sum() { return left_chain({{"+", Op::kAdd}, {"-", Op::kSub}}, &Parser::concat); }
  ExprPtr product();
  ExprPtr power() { return left_chain({{"**", Op::kPow}}, &Parser::filtered_unary); }
  ExprPtr concat();
  ExprPtr filtered_unary() { return unary(true); }
  ExprPtr unary(bool with_filter);

  // --- operands ---
  ExprPtr constant(Value value);
  ExprPtr primary(bool with_namespace = false);
  ExprPtr name_or_constant(bool with_namespace);
  bool tuple_ends(Names stop_words) const;
  // One expression, or several with commas between them. `simple`: an assignment target.
  ExprPtr tuple(bool simple, bool conditional, Names stop_words, bool parentheses,
                bool with_namespace = false);
  ExprPtr list();
  ExprPtr dict();
  ExprPtr postfix(ExprPtr e);
  ExprPtr filters_and_tests(ExprPtr e);
  ExprPtr subscript(ExprPtr object);
  ExprPtr index();
  void arguments(Expr* e);
  ExprPtr call(ExprPtr callee);
  std::string dotted_name();
  // {| name(args)}; the first "|" is already gone when `inline_start`.
  ExprPtr filter_chain(ExprPtr input, bool inline_start = false);
  ExprPtr test(ExprPtr subject);
  ExprPtr target(Names stop_words, bool with_namespace = false);
  void check_target(const Expr* e, int line);

  // --- statements ---
  // Statements up to a block that begins with one of the words, which is left current; the end of
  // the template where no words are given.
  Body statements(Names until);
  // The body of a block: its closing "%}" first, then statements up to one of the words.
  Body block_body(Names until);
  // The same up to and with the tag that ends the block.
  Body closed_body(std::string_view end);
  std::unique_ptr<Stmt> statement_node(Stmt::Kind kind);
  void statement(Body* body);
  void refuse_tag(const std::string& tag);
  void print(Body* body);
  void if_(Stmt* s);
  void for_(Stmt* s);
  void set(Stmt* s);
  void signature(Signature* sig);
  // The body of a function: names in it belong to the signature, and loops outside do not count.
  Body function_body(Signature* sig, std::string_view end);
  void macro(Stmt* s);
  void call_block(Stmt* s);
  void filter_block(Stmt* s);
  void with(Stmt* s);
  void named_block(Stmt* s);
  void generation(Stmt* s);
  void loop_control(Stmt* s);

  std::vector<LexedToken> tokens_;
  std::string name_;
  size_t pos_ = 0;
  int depth_ = 0;
  int loops_ = 0;
  // Around the current token: blocks and their lines, functions, loops.
  std::vector<std::pair<std::string, int>> open_;
  std::vector<Signature*> macros_;
  std::vector<Stmt*> fors_;
  std::optional<Error> error_;
};

}  // namespace minim::jinja
