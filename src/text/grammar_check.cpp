// Measures of a grammar, before a library sees it.
//
// A rule is productive when some text of finite length derives from it; one that is not would let a
// reply begin and never end. The flags grow from the leaves up: a rule is looked at again only when
// a rule that it uses has become productive, so the work is linear in the grammar. The length noted
// then is of the shortest alternative known at that moment: exact where there is no choice, which
// is where it matters, since text without a choice is forced in one go.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>

#include "text/grammar_rules.h"
#include "text/utf8.h"

namespace minim {
namespace {

using Kind = GrammarExpr::Kind;

// How often the library writes a repetition out before it counts instead.
constexpr int64_t kUnrolled = 128;
constexpr uint64_t kEndless = std::numeric_limits<uint64_t>::max();

uint64_t add(uint64_t a, uint64_t b) { return a > kEndless - b ? kEndless : a + b; }
uint64_t times(uint64_t a, uint64_t b) {
  return b != 0 && a > (kEndless - 1) / b ? kEndless : a * b;
}

size_t positions(const GrammarExpr& expr) {
  switch (expr.kind) {
    case Kind::kText:
      return expr.text.size() + 1;
    case Kind::kChars:
      return expr.chars.ranges().size() + 1;
    case Kind::kRule:
      return 1;
    case Kind::kToken:
    case Kind::kNotToken:
      return expr.tokens.size() + 1;
    case Kind::kRepeat: {
      const int64_t copies = std::min(expr.max < 0 ? expr.min + 1 : expr.max, kUnrolled);
      const bool single = expr.parts[0].kind == Kind::kChars;
      const size_t body = positions(expr.parts[0]);
      return body + static_cast<size_t>(copies) * (single ? body : 2);
    }
    case Kind::kSequence:
    case Kind::kChoice:
      break;
  }
  size_t sum = 1;
  for (const GrammarExpr& part : expr.parts) sum += positions(part);
  return sum;
}

void collect_rules(const GrammarExpr& expr, std::vector<size_t>& out) {
  if (expr.kind == Kind::kRule) out.push_back(expr.rule);
  for (const GrammarExpr& part : expr.parts) collect_rules(part, out);
}

// Characters of the shortest text, given those of the rules that are known; kEndless if none.
class Lengths {
 public:
  explicit Lengths(const GrammarRules& grammar) : grammar_(grammar) {
    known_.assign(grammar.rules.size(), kEndless);
    users_.resize(grammar.rules.size());
    for (size_t rule = 0; rule < grammar.rules.size(); ++rule) {
      std::vector<size_t> used;
      collect_rules(grammar.rules[rule], used);
      for (const size_t other : used) users_[other].push_back(rule);
      queue_.push_back(rule);
    }
    while (!queue_.empty()) {
      const size_t rule = queue_.front();
      queue_.pop_front();
      if (known_[rule] != kEndless) continue;
      known_[rule] = std::min(length(grammar_.rules[rule]), kEndless);
      if (known_[rule] == kEndless) continue;
      queue_.insert(queue_.end(), users_[rule].begin(), users_[rule].end());
    }
  }

  uint64_t of(size_t rule) const { return known_[rule]; }

 private:
  uint64_t length(const GrammarExpr& expr) const {
    switch (expr.kind) {
      case Kind::kText:
        return count_code_points(expr.text);
      case Kind::kChars:
        return expr.chars.empty() ? kEndless : 1;
      case Kind::kRule:
        return known_[expr.rule];
      case Kind::kToken:
      case Kind::kNotToken:
        return 1;
      case Kind::kRepeat:
        return expr.min == 0 ? 0 : times(length(expr.parts[0]), static_cast<uint64_t>(expr.min));
      case Kind::kSequence: {
        uint64_t sum = 0;
        for (const GrammarExpr& part : expr.parts) sum = add(sum, length(part));
        return sum;
      }
      case Kind::kChoice:
        break;
    }
    uint64_t least = kEndless;
    for (const GrammarExpr& part : expr.parts) least = std::min(least, length(part));
    return least;
  }

  const GrammarRules& grammar_;
  std::vector<uint64_t> known_;
  std::vector<std::vector<size_t>> users_;
  std::deque<size_t> queue_;
};

std::vector<bool> used_rules(const GrammarRules& grammar) {
  std::vector<bool> used(grammar.rules.size(), false);
  std::vector<size_t> queue{0};
  while (!queue.empty()) {
    const size_t rule = queue.back();
    queue.pop_back();
    if (used[rule]) continue;
    used[rule] = true;
    collect_rules(grammar.rules[rule], queue);
  }
  return used;
}

GrammarExpr without_endless(GrammarExpr expr, const Lengths& lengths) {
  if (expr.kind == Kind::kRule && lengths.of(expr.rule) == kEndless) return choice_expr({});
  if (expr.parts.empty()) return expr;
  for (GrammarExpr& part : expr.parts) part = without_endless(std::move(part), lengths);
  if (expr.kind == Kind::kRepeat) return repeat_expr(std::move(expr.parts[0]), expr.min, expr.max);
  return expr.kind == Kind::kChoice ? choice_expr(std::move(expr.parts))
                                    : sequence_expr(std::move(expr.parts));
}

void renumber(GrammarExpr& expr, const std::vector<size_t>& number) {
  if (expr.kind == Kind::kRule) expr.rule = number[expr.rule];
  for (GrammarExpr& part : expr.parts) renumber(part, number);
}

}  // namespace

GrammarCost cost_of(const GrammarRules& grammar) {
  GrammarCost cost;
  cost.rules = grammar.rules.size();
  for (const GrammarExpr& rule : grammar.rules) cost.positions += positions(rule);
  return cost;
}

void prune(GrammarRules& grammar, std::vector<std::string>& names) {
  const Lengths lengths(grammar);
  for (GrammarExpr& rule : grammar.rules) rule = without_endless(std::move(rule), lengths);
  const std::vector<bool> used = used_rules(grammar);
  std::vector<size_t> number(used.size(), 0);
  size_t n = 0;
  for (size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) continue;
    number[i] = n;
    if (n != i) {
      grammar.rules[n] = std::move(grammar.rules[i]);
      names[n] = std::move(names[i]);
    }
    ++n;
  }
  grammar.rules.resize(n);
  names.resize(n);
  for (GrammarExpr& rule : grammar.rules) renumber(rule, number);
}

Result<Ok> check_rules(const GrammarRules& grammar, const std::vector<std::string>& names) {
  const Lengths lengths(grammar);
  const std::vector<bool> used = used_rules(grammar);
  for (size_t rule = 0; rule < grammar.rules.size(); ++rule) {
    if (!used[rule] || lengths.of(rule) <= kMaxForcedText) continue;
    return Error{Code::kInvalid,
                 fmt::format("{} {}", names[rule],
                             lengths.of(rule) == kEndless
                                 ? "can never end: no finite text satisfies it"
                                 : fmt::format("has only texts of more than {} characters",
                                               kMaxForcedText))};
  }
  return Ok{};
}

}  // namespace minim
