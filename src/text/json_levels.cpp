// First the height of every rule: the most arrays and objects that stand in each other in its
// texts, counted no further than the bound. Heights only grow and are bounded, so a queue of rules
// whose height grew finds them in time linear in the rules, whatever refers to whatever. Then rules
// that may be too high are copied, a copy for each number of levels that are left, in which the
// next array or object refers to a copy with one level less. A counter in the matcher would need no
// copies, but the library that matches has none, and masks would have to be filtered token by
// token.
#include "text/json_levels.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace minim {
namespace {

using Kind = GrammarExpr::Kind;

// Calls `use` with every rule that the expression refers to.
template <typename Use>
void for_each_rule(const GrammarExpr& expr, const Use& use) {
  if (expr.kind == Kind::kRule) use(expr.rule);
  for (const GrammarExpr& part : expr.parts) for_each_rule(part, use);
}

class Leveller {
 public:
  Leveller(JsonRules& json, size_t levels) : json_(json), levels_(levels) {
    opens_.resize(json.rules.size());
    for (const auto* parts : {&json.arrays, &json.objects}) {
      for (const GrammarExpr& part : *parts) {
        if (part.kind == Kind::kRule) opens_[part.rule] = 1;
      }
    }
  }

  void run() {
    measure();
    for (auto* parts : {&json_.arrays, &json_.objects}) {
      for (GrammarExpr& part : *parts) part = with_levels(part, levels_);
    }
    while (!queue_.empty()) {
      const Wanted wanted = queue_.back();
      queue_.pop_back();
      // Not into rules[copy] at once: with_levels() makes rules.
      GrammarExpr copy = with_levels(json_.rules[wanted.rule], wanted.levels - opens_[wanted.rule]);
      json_.rules[wanted.copy] = std::move(copy);
    }
  }

 private:
  struct Wanted {
    size_t rule, levels, copy;
  };

  void measure() {
    const size_t n = opens_.size();
    std::vector<std::vector<size_t>> users(n);
    for (size_t rule = 0; rule < n; ++rule) {
      for_each_rule(json_.rules[rule], [&](size_t used) { users[used].push_back(rule); });
    }
    heights_ = opens_;
    std::vector<size_t> grown;
    for (size_t rule = 0; rule < n; ++rule) {
      if (heights_[rule] != 0) grown.push_back(rule);
    }
    while (!grown.empty()) {
      const size_t rule = grown.back();
      grown.pop_back();
      for (const size_t user : users[rule]) {
        const size_t height = std::min(heights_[rule] + opens_[user], levels_ + 1);
        if (height <= heights_[user]) continue;
        heights_[user] = height;
        grown.push_back(user);
      }
    }
  }

  // The expression with room for as many levels.
  GrammarExpr with_levels(const GrammarExpr& expr, size_t levels) {
    if (expr.kind == Kind::kRule) return reference(expr.rule, levels);
    GrammarExpr out = expr;
    for (GrammarExpr& part : out.parts) part = with_levels(part, levels);
    return out;
  }

  GrammarExpr reference(size_t rule, size_t levels) {
    if (heights_[rule] <= levels) return rule_expr(rule);
    if (opens_[rule] > levels) return choice_expr({});
    const auto [found, added] = copies_.try_emplace({rule, levels}, json_.rules.size());
    if (added) {
      queue_.push_back({rule, levels, found->second});
      json_.rules.emplace_back();
    }
    return rule_expr(found->second);
  }

  JsonRules& json_;
  const size_t levels_;
  std::vector<size_t> opens_;                           // by rule: 1 if it is an array or an object
  std::vector<size_t> heights_;                         // by rule
  std::map<std::pair<size_t, size_t>, size_t> copies_;  // by rule and levels
  std::vector<Wanted> queue_;
};

}  // namespace

void bound_levels(JsonRules& json, size_t levels) { Leveller(json, levels).run(); }

}  // namespace minim
