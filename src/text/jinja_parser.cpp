// A recursive-descent parser, one function per precedence level, in jinja2's own order:
// conditional, or, and, not, comparison, + -, ~, * / // %, **, unary, postfix, filter and test. Two
// quirks are kept on purpose because templates rely on them: "-x|f" filters the negated value, and
// ** is left-associative. Depth is bounded twice: while descending (brackets, blocks) and per
// finished node (long left-leaning chains), so the evaluator and the tree's destructor may recurse.
#include "text/jinja_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>

#include "text/jinja_lexer.h"

namespace minim::jinja {
namespace {

using Names = std::initializer_list<std::string_view>;

class Parser {
 public:
  Parser(std::vector<LexedToken> tokens, std::string_view name)
      : tokens_(std::move(tokens)), name_(name) {}

  Result<Body> run() {
    Body body = statements({});
    if (error_) return *error_;
    return body;
  }

 private:
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

  static std::string describe(const LexedToken& token) {
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

  std::nullptr_t fail(std::string what, int line = 0) {
    if (!error_) {
      std::replace(what.begin(), what.end(), '\n', ' ');
      error_ =
          Error{Code::kInvalid, fmt::format("{}:{}: {}", name_, line ? line : cur().line, what)};
    }
    pos_ = tokens_.size() - 1;  // everything winds up at the end token
    return nullptr;
  }
  void expect_op(std::string_view spelling) {
    if (!skip_op(spelling)) fail(fmt::format("expected '{}', got {}", spelling, describe(cur())));
  }
  std::string expect_name() {
    if (!is(Token::kName)) {
      fail(fmt::format("expected a name, got {}", describe(cur())));
      return "";
    }
    std::string name = cur().value;
    next();
    return name;
  }
  void expect_word(std::string_view name) {
    if (!skip_word(name)) fail(fmt::format("expected '{}', got {}", name, describe(cur())));
  }
  void expect(Token type, std::string_view what) {
    if (!is(type)) {
      fail(fmt::format("expected {}, got {}", what, describe(cur())));
      return;
    }
    next();
  }

  // Counts one level of descent for as long as it lives.
  struct Level {
    explicit Level(Parser* parser) : p(parser) {
      if (++p->depth_ > kMaxTreeDepth)
        p->fail(fmt::format("nested deeper than {} levels", kMaxTreeDepth));
    }
    ~Level() { --p->depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    Parser* p;
  };

  // --- expressions ---
  ExprPtr node(Expr::Kind kind, int line) {
    auto e = std::make_unique<Expr>();
    e->kind = kind;
    e->line = line;
    return e;
  }
  // Every finished node passes here: it sets the depth.
  ExprPtr done(ExprPtr e) {
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
  ExprPtr binary(Expr::Kind kind, ExprPtr left, ExprPtr right, int line) {
    ExprPtr e = node(kind, line);
    e->kids.push_back(std::move(left));
    e->kids.push_back(std::move(right));
    return done(std::move(e));
  }

  ExprPtr expression(bool conditional = true) {
    const Level level(this);
    if (error_) return nullptr;
    return conditional ? cond() : or_();
  }

  ExprPtr cond() {
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

  ExprPtr or_() {
    const int line = cur().line;
    ExprPtr left = and_();
    while (skip_word("or")) left = binary(Expr::Kind::kOr, std::move(left), and_(), line);
    return left;
  }

  ExprPtr and_() {
    const int line = cur().line;
    ExprPtr left = not_();
    while (skip_word("and")) left = binary(Expr::Kind::kAnd, std::move(left), not_(), line);
    return left;
  }

  ExprPtr not_() {
    if (!word("not")) return compare();
    const Level level(this);
    ExprPtr e = node(Expr::Kind::kNot, cur().line);
    next();
    e->kids.push_back(error_ ? nullptr : not_());
    return done(std::move(e));
  }

  bool compare_op(Op* out) {
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

  ExprPtr compare() {
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

  using Table = std::initializer_list<std::pair<std::string_view, Op>>;
  ExprPtr left_chain(Table table, ExprPtr (Parser::*operand)()) {
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

  ExprPtr sum() { return left_chain({{"+", Op::kAdd}, {"-", Op::kSub}}, &Parser::concat); }
  ExprPtr product() {
    return left_chain({{"*", Op::kMul}, {"/", Op::kDiv}, {"//", Op::kFloorDiv}, {"%", Op::kMod}},
                      &Parser::power);
  }
  ExprPtr power() { return left_chain({{"**", Op::kPow}}, &Parser::filtered_unary); }

  ExprPtr concat() {
    const int line = cur().line;
    ExprPtr first = product();
    if (!op("~")) return first;
    ExprPtr e = node(Expr::Kind::kConcat, line);
    e->kids.push_back(std::move(first));
    while (skip_op("~")) e->kids.push_back(product());
    return done(std::move(e));
  }

  ExprPtr filtered_unary() { return unary(true); }
  ExprPtr unary(bool with_filter) {
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

  ExprPtr constant(Value value) {
    ExprPtr e = node(Expr::Kind::kConst, cur().line);
    e->constant = std::move(value);
    next();
    return e;
  }

  ExprPtr primary(bool with_namespace = false) {
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

  ExprPtr name_or_constant(bool with_namespace) {
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

  bool tuple_ends(Names stop_words) const {
    return is(Token::kVariableEnd) || is(Token::kBlockEnd) || is(Token::kEnd) || op(")") ||
           word(stop_words);
  }

  // One expression, or several with commas between them. `simple`: an assignment target.
  ExprPtr tuple(bool simple, bool conditional, Names stop_words, bool parentheses,
                bool with_namespace = false) {
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

  ExprPtr list() {
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

  ExprPtr dict() {
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

  ExprPtr postfix(ExprPtr e) {
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

  ExprPtr filters_and_tests(ExprPtr e) {
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

  ExprPtr subscript(ExprPtr object) {
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

  ExprPtr index() {
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

  void arguments(Expr* e) {
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

  ExprPtr call(ExprPtr callee) {
    ExprPtr e = node(Expr::Kind::kCall, cur().line);
    e->kids.push_back(std::move(callee));
    arguments(e.get());
    return done(std::move(e));
  }

  std::string dotted_name() {
    std::string name = expect_name();
    while (skip_op(".")) name.append(".").append(expect_name());
    return name;
  }

  // {| name(args)}; the first "|" is already gone when `inline_start`.
  ExprPtr filter_chain(ExprPtr input, bool inline_start = false) {
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

  ExprPtr test(ExprPtr subject) {
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

  ExprPtr target(Names stop_words, bool with_namespace = false) {
    const int line = cur().line;
    ExprPtr e = tuple(true, true, stop_words, false, with_namespace);
    check_target(e.get(), line);
    return e;
  }
  void check_target(const Expr* e, int line) {
    if (!e) return;
    if (e->kind == Expr::Kind::kTuple) {
      for (const ExprPtr& kid : e->kids) check_target(kid.get(), line);
    } else if (e->kind != Expr::Kind::kName && e->kind != Expr::Kind::kNsRef) {
      fail("cannot assign to this expression", line);
    }
  }

  // --- statements ---
  // Statements up to a block that begins with one of the words, which is left current; the end of
  // the template where no words are given.
  Body statements(Names until) {
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

  // The body of a block: its closing "%}" first, then statements up to one of the words.
  Body block_body(Names until) {
    skip_op(":");
    expect(Token::kBlockEnd, "'%}'");
    return statements(until);
  }
  Body closed_body(std::string_view end) {
    Body body = block_body({end});
    if (!error_) next();
    return body;
  }

  std::unique_ptr<Stmt> statement_node(Stmt::Kind kind) {
    auto s = std::make_unique<Stmt>();
    s->kind = kind;
    s->line = cur().line;
    return s;
  }

  void statement(Body* body) {
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
    if (word({"extends", "include", "import", "from", "autoescape", "trans", "do"})) {
      fail(fmt::format("the tag '{}' is not supported in a chat template", tag));
    } else if (tag.substr(0, 3) == "end" && !open_.empty()) {
      fail(fmt::format("unexpected tag '{}'; the innermost open block is '{}' (line {})", tag,
                       open_.back().first, open_.back().second));
    } else {
      fail(fmt::format("unknown tag '{}'", tag));
    }
  }

  void print(Body* body) {
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

  void if_(Stmt* s) {
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

  void for_(Stmt* s) {
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

  void set(Stmt* s) {
    s->target = target({}, true);
    if (skip_op("=")) {
      s->value = tuple(false, true, {}, false);
      return;
    }
    s->kind = Stmt::Kind::kSetBlock;
    s->value = filter_chain(nullptr);
    s->body = closed_body("endset");
  }

  void signature(Signature* sig) {
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

  // The body of a function: names in it belong to the signature, and loops outside do not count.
  Body function_body(Signature* sig, std::string_view end) {
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

  void macro(Stmt* s) {
    s->name = expect_name();
    signature(&s->signature);
    s->body = function_body(&s->signature, "endmacro");
  }

  void call_block(Stmt* s) {
    if (op("(")) signature(&s->signature);
    s->value = expression();
    if (!error_ && s->value->kind != Expr::Kind::kCall) fail("expected a call", s->line);
    s->body = function_body(&s->signature, "endcall");
  }

  void filter_block(Stmt* s) {
    s->value = filter_chain(nullptr, true);
    s->body = closed_body("endfilter");
  }

  void with(Stmt* s) {
    while (!is(Token::kBlockEnd) && !error_) {
      if (!s->bindings.empty()) expect_op(",");
      ExprPtr to = target({});
      expect_op("=");
      s->bindings.emplace_back(std::move(to), expression());
    }
    s->body = closed_body("endwith");
  }

  void named_block(Stmt* s) {
    s->name = expect_name();
    skip_word("scoped");
    const int loops = std::exchange(loops_, 0);
    s->body = closed_body("endblock");
    loops_ = loops;
    skip_word(s->name);
  }

  void generation(Stmt* s) {
    const int loops = std::exchange(loops_, 0);
    s->body = closed_body("endgeneration");
    loops_ = loops;
  }

  void loop_control(Stmt* s) {
    if (loops_ == 0) fail(fmt::format("'{}' outside a loop", open_.back().first), s->line);
  }

  std::vector<LexedToken> tokens_;
  std::string name_;
  size_t pos_ = 0;
  int depth_ = 0;
  int loops_ = 0;
  std::vector<std::pair<std::string, int>>
      open_;                        // blocks around the current token, and their lines
  std::vector<Signature*> macros_;  // functions around the current token
  std::vector<Stmt*> fors_;         // loops around the current token
  std::optional<Error> error_;
};

}  // namespace

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
