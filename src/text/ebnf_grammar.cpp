// Recursive descent with bounded nesting. We read the text ourselves, and print what we read anew,
// so that the library sees only constructs that are counted (no macros, no rule options, no
// look-ahead), and so that mistakes are told with their place in words of ours.
#include "text/ebnf_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "text/utf8.h"

namespace minim {
namespace {

constexpr int64_t kMaxCount = 1'000'000;

bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool in_name(char c) { return starts_name(c) || (c >= '0' && c <= '9') || c == '-' || c == '.'; }

class Parser {
 public:
  Parser(std::string_view text, bool tokens, TokenId n_ids)
      : text_(text), tokens_(tokens), n_ids_(n_ids) {
    rule_number("root");
  }

  Result<NamedGrammar> parse() {
    for (skip(); !at_end(); skip()) {
      if (Result<Ok> rule = parse_rule(); !rule) return rule.error();
    }
    for (size_t i = 0; i < defined_.size(); ++i) {
      if (defined_[i]) continue;
      position_ = used_at_[i];
      return invalid(i == 0 ? "no rule \"root\" in the grammar; found the end of its text"
                            : fmt::format("no rule \"{}\" in the grammar; it is used", names_[i]));
    }
    return NamedGrammar{{std::move(rules_)}, std::move(names_)};
  }

 private:
  bool at_end() const { return position_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[position_]; }
  bool take(std::string_view word) {
    if (!text_.substr(position_).starts_with(word)) return false;
    position_ += word.size();
    return true;
  }

  Error invalid(std::string_view what) const {
    const std::string_view before = text_.substr(0, std::min(position_, text_.size()));
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const size_t begin = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    return {Code::kInvalid, fmt::format("{} at line {}, column {}", what, line,
                                        count_code_points(before.substr(begin)) + 1)};
  }

  void skip() {
    while (!at_end()) {
      if (peek() == '#') {
        position_ = std::min(text_.find('\n', position_), text_.size());
      } else if (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') {
        ++position_;
      } else {
        return;
      }
    }
  }

  size_t rule_number(const std::string& name) {
    const auto [found, added] = numbers_.try_emplace(name, names_.size());
    if (added) {
      names_.push_back(name);
      rules_.emplace_back();
      defined_.push_back(false);
      used_at_.push_back(position_);
    }
    return found->second;
  }

  std::string name() {
    const size_t begin = position_;
    while (!at_end() && in_name(peek())) ++position_;
    return std::string(text_.substr(begin, position_ - begin));
  }

  // Whether a name and "::=" stand here: the next rule begins.
  bool rule_begins() {
    const size_t begin = position_;
    if (!starts_name(peek())) return false;
    name();
    skip();
    const bool found = text_.substr(position_).starts_with("::=");
    position_ = begin;
    return found;
  }

  Result<Ok> parse_rule() {
    if (!starts_name(peek())) return invalid("found no rule; wanted: name ::= expression");
    const std::string rule = name();
    skip();
    if (!take("::=")) return invalid(fmt::format("no \"::=\" behind \"{}\"", rule));
    const size_t number = rule_number(rule);
    if (defined_[number]) return invalid(fmt::format("rule \"{}\" is defined twice", rule));
    Result<GrammarExpr> expr = choice(0);
    if (!expr) return expr.error();
    skip();
    if (!at_end() && !rule_begins()) return invalid(fmt::format("unexpected '{}'", shown()));
    rules_[number] = *std::move(expr);
    defined_[number] = true;
    return Ok{};
  }

  std::string shown() const {
    return std::string(text_.substr(position_, utf8_first(text_.substr(position_)).length));
  }

  Result<GrammarExpr> choice(int depth) {
    if (depth > kMaxExprDepth / 2) {
      return invalid(fmt::format("groups nested deeper than {}", kMaxExprDepth / 2));
    }
    std::vector<GrammarExpr> parts;
    do {
      Result<GrammarExpr> part = sequence(depth);
      if (!part) return part;
      parts.push_back(*std::move(part));
      skip();
    } while (take("|"));
    return choice_expr(std::move(parts));
  }

  Result<GrammarExpr> sequence(int depth) {
    std::vector<GrammarExpr> parts;
    for (skip(); !at_end() && peek() != '|' && peek() != ')' && !rule_begins(); skip()) {
      Result<GrammarExpr> part = element(depth);
      if (!part) return part;
      skip();
      Result<GrammarExpr> repeated = repetition(*std::move(part));
      if (!repeated) return repeated;
      parts.push_back(*std::move(repeated));
    }
    return sequence_expr(std::move(parts));
  }

  Result<GrammarExpr> element(int depth) {
    const char c = peek();
    if (c == '"') return literal();
    if (c == '[') return char_class();
    if (c == '(') {
      if (take("(=")) return invalid("look-ahead is not supported; found");
      ++position_;
      Result<GrammarExpr> group = choice(depth + 1);
      if (!group) return group;
      if (!take(")")) return invalid("missing ')'");
      return group;
    }
    if (!starts_name(c)) return invalid(fmt::format("unexpected '{}'", shown()));
    const size_t begin = position_;
    const std::string word = name();
    if (peek() == '(') return macro(word, begin);
    position_ = begin;
    const size_t number = rule_number(word);
    name();
    return rule_expr(number);
  }

  Result<GrammarExpr> macro(const std::string& word, size_t begin) {
    if (!tokens_ || (word != "Token" && word != "ExcludeToken")) {
      position_ = begin;
      return invalid(fmt::format("{}(…) is not supported; found", word));
    }
    GrammarExpr expr;
    expr.kind = word == "Token" ? GrammarExpr::Kind::kToken : GrammarExpr::Kind::kNotToken;
    do {
      ++position_;
      skip();
      Result<int64_t> id = number(n_ids_ - 1);
      if (!id) return id.error();
      expr.tokens.push_back(static_cast<TokenId>(*id));
      skip();
    } while (peek() == ',');
    if (!take(")")) return invalid("missing ')'");
    return expr;
  }

  Result<int64_t> number(int64_t limit) {
    if (peek() < '0' || peek() > '9') return invalid("found no number");
    int64_t value = 0;
    while (peek() >= '0' && peek() <= '9') {
      value = value * 10 + (peek() - '0');
      if (value > limit) return invalid(fmt::format("a number above {}", limit));
      ++position_;
    }
    return value;
  }

  Result<GrammarExpr> repetition(GrammarExpr part) {
    int64_t min = 0, max = -1;
    if (take("?")) {
      max = 1;
    } else if (take("+")) {
      min = 1;
    } else if (take("{")) {
      skip();
      Result<int64_t> least = number(kMaxCount);
      if (!least) return least.error();
      min = max = *least;
      skip();
      if (take(",")) {
        skip();
        max = -1;
        if (peek() != '}') {
          Result<int64_t> most = number(kMaxCount);
          if (!most) return most.error();
          max = *most;
        }
        skip();
      }
      if (!take("}")) return invalid("missing '}'");
      if (max >= 0 && min > max) return invalid("{n,m} with n above m");
    } else if (!take("*")) {
      return part;
    }
    skip();
    if (peek() == '?' || peek() == '*' || peek() == '+' || peek() == '{') {
      return invalid("a second repetition of one element; put it in brackets");
    }
    return repeat_expr(std::move(part), min, max);
  }

  Result<GrammarExpr> literal() {
    ++position_;
    std::string out;
    while (peek() != '"') {
      if (at_end() || peek() == '\n' || peek() == '\r') return invalid("missing '\"'");
      Result<uint32_t> c = character(false);
      if (!c) return c.error();
      append_utf8(out, *c);
    }
    ++position_;
    return text_expr(out);
  }

  Result<GrammarExpr> char_class() {
    ++position_;
    const bool negative = take("^");
    CharSet set;
    while (!take("]")) {
      Result<uint32_t> first = character(true);
      if (!first) return first.error();
      uint32_t last = *first;
      if (peek() == '-' && position_ + 1 < text_.size() && text_[position_ + 1] != ']') {
        ++position_;
        Result<uint32_t> end = character(true);
        if (!end) return end.error();
        last = *end;
      }
      if (*first > last) return invalid("a range upside down");
      set.add(*first, last);
    }
    return chars_expr(negative ? set.complement() : set);
  }

  Result<uint32_t> character(bool in_class) {
    if (at_end() || peek() == '\n' || peek() == '\r') {
      return invalid(in_class ? "missing ']'" : "missing '\"'");
    }
    if (peek() != '\\') return static_cast<uint32_t>(next_code_point(text_, &position_));
    ++position_;
    const char c = peek();
    if (c == 'x' || c == 'u' || c == 'U') return code_point(c == 'x' ? 0 : c == 'u' ? 4 : 8);
    static constexpr std::string_view kNames = "nrtbfav0e";
    static constexpr std::string_view kValues("\n\r\t\b\f\a\v\0\x1b", 9);
    static constexpr std::string_view kItself = "\"\\/'?", kInClass = "^$.*+()[]{}|-";
    if (c != '\0' && kNames.find(c) != std::string_view::npos) {
      ++position_;
      return static_cast<uint32_t>(kValues[kNames.find(c)]);
    }
    if (c != '\0' && (kItself.find(c) != std::string_view::npos ||
                      (in_class && kInClass.find(c) != std::string_view::npos))) {
      ++position_;
      return static_cast<uint32_t>(c);
    }
    return invalid("unknown escape");
  }

  // Behind \x any number of digits, behind \u four, behind \U eight.
  Result<uint32_t> code_point(size_t wanted) {
    ++position_;
    uint32_t value = 0;
    size_t digits = 0;
    for (; wanted == 0 || digits < wanted; ++digits, ++position_) {
      const char c = peek();
      const char lower = static_cast<char>(c | 0x20);
      const bool hex = (c >= '0' && c <= '9') || (lower >= 'a' && lower <= 'f');
      if (!hex) break;
      value = value << 4 | static_cast<uint32_t>(c <= '9' ? c - '0' : lower - 'a' + 10);
      if (value > kLastCodePoint) break;
    }
    if (digits == 0 || digits < wanted || value > kLastCodePoint ||
        // Texts of minim's own name the surrogates, to leave them out.
        (value >= 0xD800 && value <= 0xDFFF && !tokens_)) {
      return invalid("not a code point");
    }
    return value;
  }

  const std::string_view text_;
  const bool tokens_;
  const TokenId n_ids_;
  size_t position_ = 0;
  std::vector<GrammarExpr> rules_;
  std::vector<std::string> names_;
  std::vector<bool> defined_;
  std::vector<size_t> used_at_;
  std::unordered_map<std::string, size_t> numbers_;
};

}  // namespace

Result<NamedGrammar> parse_ebnf(std::string_view text, bool tokens, TokenId n_ids) {
  return Parser(text, tokens, n_ids).parse();
}

}  // namespace minim
