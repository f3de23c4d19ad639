// Building expressions, and writing them as EBNF. A set that is repeated a counted number of times
// is written as what it leaves out: such a repetition, before a character that is left out (the
// quote that ends a JSON string), the library counts instead of writing it out place by place.
#include "text/grammar_rules.h"

#include <fmt/format.h>

#include <iterator>

namespace minim {
namespace {

using Kind = GrammarExpr::Kind;

void print(const GrammarExpr& expr, std::string& out);

void print_text(std::string_view text, std::string& out) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  out += '"';
}

void print_char(uint32_t c, std::string& out) {
  if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')) {
    out += static_cast<char>(c);
  } else if (c <= 0xFFFF) {
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", c);
  } else {
    fmt::format_to(std::back_inserter(out), "\\U{:08x}", c);
  }
}

void print_ranges(const std::vector<CharRange>& ranges, std::string& out) {
  for (const CharRange& range : ranges) {
    print_char(range.first, out);
    if (range.last == range.first) continue;
    out += '-';
    print_char(range.last, out);
  }
}

void print_chars(const CharSet& chars, bool negated, std::string& out) {
  out += '[';
  if (negated || (!chars.ranges().empty() && chars.ranges().back().last == kLastCodePoint)) {
    out += '^';
    print_ranges(chars.complement().ranges(), out);
    print_ranges({{0xD800, 0xDFFF}}, out);
  } else {
    print_ranges(chars.ranges(), out);
  }
  out += ']';
}

void print_parts(const GrammarExpr& expr, std::string_view between, std::string& out) {
  out += "( ";
  for (size_t i = 0; i < expr.parts.size(); ++i) {
    if (i != 0) out += between;
    print(expr.parts[i], out);
  }
  out += " )";
}

void print_repeat(const GrammarExpr& expr, std::string& out) {
  // Counted characters: bare, and as what they are not, is the form that the library counts.
  if (expr.parts[0].kind == Kind::kChars) {
    const bool counted = expr.min > 1 || expr.max > 1;
    print_chars(expr.parts[0].chars, counted, out);
  } else {
    out += "( ";
    print(expr.parts[0], out);
    out += " )";
  }
  if (expr.max < 0 && expr.min <= 1) {
    out += expr.min == 0 ? '*' : '+';
  } else if (expr.max < 0) {
    fmt::format_to(std::back_inserter(out), "{{{},}}", expr.min);
  } else if (expr.min == 0 && expr.max == 1) {
    out += '?';
  } else {
    fmt::format_to(std::back_inserter(out), "{{{},{}}}", expr.min, expr.max);
  }
}

void print_rule_name(size_t rule, std::string& out) {
  out += rule == 0 ? "root" : fmt::format("r{}", rule);
}

void print(const GrammarExpr& expr, std::string& out) {
  switch (expr.kind) {
    case Kind::kText:
      return print_text(expr.text, out);
    case Kind::kChars:
      return print_chars(expr.chars, false, out);
    case Kind::kSequence:
      return print_parts(expr, " ", out);
    case Kind::kChoice:
      return print_parts(expr, " | ", out);
    case Kind::kRepeat:
      return print_repeat(expr, out);
    case Kind::kRule:
      return print_rule_name(expr.rule, out);
    case Kind::kToken:
    case Kind::kNotToken:
      out += fmt::format("{}({})", expr.kind == Kind::kToken ? "Token" : "ExcludeToken",
                         fmt::join(expr.tokens, ", "));
  }
}

}  // namespace

GrammarExpr text_expr(std::string_view text) {
  GrammarExpr expr;
  expr.text = text;
  return expr;
}

GrammarExpr chars_expr(CharSet chars) {
  GrammarExpr expr;
  expr.kind = Kind::kChars;
  expr.chars = std::move(chars);
  return expr;
}

GrammarExpr rule_expr(size_t rule) {
  GrammarExpr expr;
  expr.kind = Kind::kRule;
  expr.rule = rule;
  return expr;
}

void move_rules(GrammarExpr& expr, size_t by) {
  if (expr.kind == GrammarExpr::Kind::kRule) expr.rule += by;
  for (GrammarExpr& part : expr.parts) move_rules(part, by);
}

GrammarExpr sequence_expr(std::vector<GrammarExpr> parts) {
  GrammarExpr expr;
  expr.kind = Kind::kSequence;
  for (GrammarExpr& part : parts) {
    if (part.nothing()) return choice_expr({});
    if (part.empty_text()) continue;
    if (part.kind == Kind::kSequence) {
      std::move(part.parts.begin(), part.parts.end(), std::back_inserter(expr.parts));
    } else if (part.kind == Kind::kText && !expr.parts.empty() &&
               expr.parts.back().kind == Kind::kText) {
      expr.parts.back().text += part.text;
    } else {
      expr.parts.push_back(std::move(part));
    }
  }
  if (expr.parts.empty()) return text_expr("");
  if (expr.parts.size() == 1) return GrammarExpr(std::move(expr.parts[0]));
  return expr;
}

GrammarExpr choice_expr(std::vector<GrammarExpr> parts) {
  GrammarExpr expr;
  expr.kind = Kind::kChoice;
  for (GrammarExpr& part : parts) {
    if (part.nothing()) continue;
    if (part.kind == Kind::kChoice) {
      std::move(part.parts.begin(), part.parts.end(), std::back_inserter(expr.parts));
    } else {
      expr.parts.push_back(std::move(part));
    }
  }
  if (expr.parts.size() == 1) return GrammarExpr(std::move(expr.parts[0]));
  return expr;
}

GrammarExpr repeat_expr(GrammarExpr part, int64_t min, int64_t max) {
  if (max == 0) return text_expr("");
  if (part.nothing()) return min == 0 ? text_expr("") : choice_expr({});
  if (part.empty_text() || (min == 1 && max == 1)) return part;
  GrammarExpr expr;
  expr.kind = Kind::kRepeat;
  expr.min = min;
  expr.max = max;
  expr.parts.push_back(std::move(part));
  return expr;
}

std::string print_ebnf(const GrammarRules& grammar) {
  std::string out;
  for (size_t i = 0; i < grammar.rules.size(); ++i) {
    print_rule_name(i, out);
    out += " ::= ";
    print(grammar.rules[i], out);
    out += '\n';
  }
  return out;
}

}  // namespace minim
