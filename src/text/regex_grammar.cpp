// A recursive-descent parser that yields expressions at once; anchors are handled where an
// alternative begins and ends, because a grammar has no notion of "here the text begins". Nesting
// is bounded. A library's matcher would accept these patterns in its own dialect and ignore what it
// does not know; so the dialect is ours, and what is not in it is refused with its place.
#include "text/regex_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "text/regex_classes.h"
#include "text/utf8.h"

namespace minim {
namespace {

using Kind = GrammarExpr::Kind;

constexpr int64_t kMaxCount = 1'000'000;

// One alternative, or a group that is all of one: what it says about the ends of the text.
struct Anchored {
  GrammarExpr expr;
  bool begins = false;
  bool ends = false;
};

class Parser {
 public:
  Parser(std::string_view pattern, bool search) : scan_{pattern}, search_(search) {}

  Result<GrammarExpr> parse() {
    Result<std::vector<Anchored>> all = alternatives(0, /*may_anchor=*/true);
    if (!all) return all.error();
    if (!scan_.at_end()) return scan_.invalid("unmatched ')'");
    std::vector<GrammarExpr> choices;
    for (Anchored& one : *all) choices.push_back(bound(std::move(one)));
    GrammarExpr whole = choice_expr(std::move(choices));
    if (whole.nothing()) return scan_.invalid("no text matches it");
    return whole;
  }

 private:
  GrammarExpr bound(Anchored one) const {
    if (!search_) return std::move(one.expr);
    std::vector<GrammarExpr> parts;
    const GrammarExpr anything = repeat_expr(chars_expr(CharSet::all()), 0, -1);
    if (!one.begins) parts.push_back(anything);
    parts.push_back(std::move(one.expr));
    if (!one.ends) parts.push_back(anything);
    return sequence_expr(std::move(parts));
  }

  Result<std::vector<Anchored>> alternatives(int depth, bool may_anchor) {
    if (depth > kMaxExprDepth / 2) {
      return Error{Code::kInvalid, fmt::format("groups nested deeper than {}", kMaxExprDepth / 2)};
    }
    std::vector<Anchored> all;
    do {
      Result<std::vector<Anchored>> some = alternative(depth, may_anchor);
      if (!some) return some.error();
      std::move(some->begin(), some->end(), std::back_inserter(all));
    } while (scan_.take('|'));
    return all;
  }

  // More than one only where the alternative is a group of several that have anchors themselves.
  Result<std::vector<Anchored>> alternative(int depth, bool may_anchor) {
    Anchored one;
    std::vector<GrammarExpr> parts;
    while (may_anchor && scan_.take('^')) one.begins = true;
    if (may_anchor && !one.begins && group_is_all()) return whole_group(depth);
    while (!scan_.at_end() && scan_.peek() != '|' && scan_.peek() != ')') {
      if (scan_.peek() == '$' && may_anchor) {
        while (scan_.take('$')) one.ends = true;
        if (!scan_.at_end() && scan_.peek() != '|' && scan_.peek() != ')') return misplaced("$");
        break;
      }
      Result<GrammarExpr> part = term(depth);
      if (!part) return part.error();
      parts.push_back(*std::move(part));
    }
    one.expr = sequence_expr(std::move(parts));
    std::vector<Anchored> result;
    result.push_back(std::move(one));
    return result;
  }

  Error misplaced(const char* what) const {
    return scan_.unsupported(fmt::format("{} inside a pattern; it may stand at its ends", what));
  }

  // A group stands here, and behind it nothing but the end of the alternative.
  bool group_is_all() const {
    if (scan_.at_end() || scan_.peek() != '(') return false;
    const size_t close = scan_.closing_bracket();
    return close != std::string_view::npos &&
           (close + 1 == scan_.pattern.size() || scan_.pattern[close + 1] == '|' ||
            scan_.pattern[close + 1] == ')');
  }

  Result<std::vector<Anchored>> whole_group(int depth) {
    if (Result<Ok> opened = scan_.open_group(); !opened) return opened.error();
    Result<std::vector<Anchored>> all = alternatives(depth + 1, true);
    if (all && !scan_.take(')')) return scan_.invalid("missing ')'");
    return all;
  }

  Result<GrammarExpr> term(int depth) {
    Result<GrammarExpr> part = atom(depth);
    if (!part) return part;
    Result<std::optional<RegexScanner::Count>> count = scan_.quantifier(kMaxCount);
    if (!count) return count.error();
    if (!count->has_value()) return part;
    if (scan_.quantifier_follows()) return scan_.invalid("a second quantifier");
    return repeat_expr(*std::move(part), (*count)->min, (*count)->max);
  }

  Result<GrammarExpr> atom(int depth) {
    const char c = scan_.peek();
    if (c == '^' || c == '$') return misplaced(c == '^' ? "^" : "$");
    if (c == '*' || c == '+' || c == '?') return scan_.invalid("nothing to repeat");
    if (c == '(') return group(depth);
    if (c == '{' && scan_.count_follows()) return scan_.invalid("nothing to repeat");
    Result<CharSet> set = scan_.set();
    if (!set) return set.error();
    return as_text(*std::move(set));
  }

  static GrammarExpr as_text(CharSet set) {
    const std::vector<CharRange>& ranges = set.ranges();
    if (ranges.size() != 1 || ranges[0].first != ranges[0].last) return chars_expr(std::move(set));
    std::string text;
    append_utf8(text, ranges[0].first);
    return text_expr(text);
  }

  Result<GrammarExpr> group(int depth) {
    if (Result<Ok> opened = scan_.open_group(); !opened) return opened.error();
    Result<std::vector<Anchored>> all = alternatives(depth + 1, false);
    if (!all) return all.error();
    if (!scan_.take(')')) return scan_.invalid("missing ')'");
    std::vector<GrammarExpr> choices;
    for (Anchored& one : *all) choices.push_back(std::move(one.expr));
    return choice_expr(std::move(choices));
  }

  RegexScanner scan_;
  const bool search_;
};

}  // namespace

Result<GrammarExpr> regex_whole(std::string_view pattern) { return Parser(pattern, false).parse(); }
Result<GrammarExpr> regex_search(std::string_view pattern) { return Parser(pattern, true).parse(); }

LengthRange length_range(const GrammarExpr& expr) {
  switch (expr.kind) {
    case Kind::kText: {
      const auto length = static_cast<int64_t>(count_code_points(expr.text));
      return {length, length};
    }
    case Kind::kSequence: {
      LengthRange sum;
      for (const GrammarExpr& part : expr.parts) {
        const LengthRange range = length_range(part);
        sum.least += range.least;
        sum.most = sum.most < 0 || range.most < 0 ? -1 : sum.most + range.most;
      }
      return sum;
    }
    case Kind::kChoice: {
      LengthRange range = length_range(expr.parts.at(0));
      for (const GrammarExpr& part : expr.parts) {
        const LengthRange other = length_range(part);
        range.least = std::min(range.least, other.least);
        range.most = range.most < 0 || other.most < 0 ? -1 : std::max(range.most, other.most);
      }
      return range;
    }
    case Kind::kRepeat: {
      const LengthRange part = length_range(expr.parts[0]);
      // Products stay far below 2^63: counts and lengths are bounded where they are read.
      const auto product = [](int64_t a, int64_t b) {
        return a != 0 && b > (int64_t{1} << 60) / a ? int64_t{1} << 60 : a * b;
      };
      const bool endless = (expr.max < 0 && part.most != 0) || part.most < 0;
      return {product(part.least, expr.min), endless ? -1 : product(part.most, expr.max)};
    }
    case Kind::kChars:
    case Kind::kRule:
    case Kind::kToken:
    case Kind::kNotToken:
      break;
  }
  return {1, 1};
}

Result<GrammarExpr> with_length(GrammarExpr expr, int64_t least, int64_t most) {
  const LengthRange range = length_range(expr);
  const bool short_enough = most < 0 || (range.most >= 0 && range.most <= most);
  if (range.least >= least && short_enough) return expr;
  if (expr.kind == Kind::kChoice) {
    std::vector<GrammarExpr> parts;
    for (GrammarExpr& part : expr.parts) {
      Result<GrammarExpr> narrowed = with_length(std::move(part), least, most);
      if (!narrowed) return narrowed;
      parts.push_back(*std::move(narrowed));
    }
    return choice_expr(std::move(parts));
  }
  std::vector<GrammarExpr> parts;
  if (expr.kind == Kind::kSequence) {
    parts = std::move(expr.parts);
  } else {
    parts.push_back(std::move(expr));
  }
  GrammarExpr* open = nullptr;  // the one part whose length is not fixed
  int64_t fixed = 0;
  for (GrammarExpr& part : parts) {
    const LengthRange one = length_range(part);
    if (one.least == one.most) {
      fixed += one.least;
    } else if (open == nullptr && part.kind == Kind::kRepeat) {
      open = &part;
    } else {
      return Error{Code::kUnsupported, "more than one part of it has no fixed length"};
    }
  }
  if (open == nullptr) return choice_expr({});
  const LengthRange unit = length_range(open->parts[0]);
  if (unit.least != unit.most || unit.least == 0) {
    return Error{Code::kUnsupported, "what it repeats has no fixed length"};
  }
  const int64_t short_of = std::max<int64_t>(least - fixed, 0);
  const int64_t min = std::max(open->min, (short_of + unit.least - 1) / unit.least);
  int64_t max = open->max;
  if (most >= 0) {
    if (most < fixed) return choice_expr({});
    const int64_t fits = (most - fixed) / unit.least;
    max = max < 0 ? fits : std::min(max, fits);
  }
  if (max >= 0 && min > max) return choice_expr({});
  *open = repeat_expr(std::move(open->parts[0]), min, max);
  return sequence_expr(std::move(parts));
}

}  // namespace minim
