// Ranges of numbers as grammars, by cases on digits.
//
// The sign is split off first, which leaves ranges of magnitudes. For whole numbers a range is a
// choice over where a digit first differs from the bound: "the same up to here, then a smaller
// (larger) digit, then anything", O(digits²) characters in all. Fractions have no fixed length, so
// there the cases are a recursion over digits with two flags, one for each bound that is still met
// exactly.
#include "text/decimal.h"

#include <fmt/format.h>

#include <algorithm>

namespace minim {
namespace {

struct Magnitude {
  std::string whole;
  std::string fraction;
  bool exclusive;
};
using OptionalMagnitude = std::optional<Magnitude>;

GrammarExpr digit(char first, char last) {
  if (first > last) return choice_expr({});
  if (first == last) return text_expr(std::string(1, first));
  return chars_expr({{static_cast<uint32_t>(first), static_cast<uint32_t>(last)}});
}
GrammarExpr digits(int64_t min, int64_t max) { return repeat_expr(digit('0', '9'), min, max); }

char next(char c) { return static_cast<char>(c + 1); }
char previous(char c) { return static_cast<char>(c - 1); }

int compare_whole(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  return a.compare(b);
}

std::string plus_one(std::string whole) {
  size_t i = whole.size();
  while (i > 0 && whole[i - 1] == '9') whole[--i] = '0';
  if (i == 0) return "1" + whole;
  ++whole[i - 1];
  return whole;
}

std::string minus_one(std::string whole) {  // of at least 1
  size_t i = whole.size();
  while (whole[i - 1] == '0') whole[--i] = '9';
  --whole[i - 1];
  if (whole.size() > 1 && whole[0] == '0') whole.erase(0, 1);
  return whole;
}

// Digit strings from low to high, both of one length.
GrammarExpr between(std::string_view low, std::string_view high) {
  const size_t n = low.size();
  size_t same = 0;
  while (same < n && low[same] == high[same]) ++same;
  if (same == n) return text_expr(low);
  const auto differing = [n](std::string_view bound, size_t at, char first, char last) {
    const auto rest = static_cast<int64_t>(n - at - 1);
    return sequence_expr({text_expr(bound.substr(0, at)), digit(first, last), digits(rest, rest)});
  };
  std::vector<GrammarExpr> cases;
  cases.push_back(differing(low, same, next(low[same]), previous(high[same])));
  for (size_t i = same + 1; i < n; ++i) cases.push_back(differing(low, i, next(low[i]), '9'));
  for (size_t i = same + 1; i < n; ++i) cases.push_back(differing(high, i, '0', previous(high[i])));
  cases.push_back(text_expr(low));
  cases.push_back(text_expr(high));
  return choice_expr(std::move(cases));
}

// Whole numbers from low to high (none: without end), as digits without leading zeros.
GrammarExpr wholes(const std::string& low, const std::optional<std::string>& high) {
  if (high && compare_whole(low, *high) > 0) return choice_expr({});
  if (high && low.size() == high->size()) return between(low, *high);
  std::vector<GrammarExpr> cases;
  cases.push_back(between(low, std::string(low.size(), '9')));
  const auto more = static_cast<int64_t>(low.size());
  const int64_t most = high ? static_cast<int64_t>(high->size()) - 2 : -1;
  if (!high || most >= more) {
    cases.push_back(sequence_expr({digit('1', '9'), digits(more, most)}));
  }
  if (high) cases.push_back(between("1" + std::string(high->size() - 1, '0'), *high));
  return choice_expr(std::move(cases));
}

GrammarExpr integers(const OptionalMagnitude& low, const OptionalMagnitude& high) {
  std::string least = "0";
  if (low) least = low->fraction.empty() && !low->exclusive ? low->whole : plus_one(low->whole);
  std::optional<std::string> most;
  if (high) {
    most = high->whole;
    if (high->fraction.empty() && high->exclusive) {
      if (*most == "0") return choice_expr({});
      most = minus_one(*most);
    }
  }
  return wholes(least, most);
}

// What may stand behind a whole part that meets one bound or both exactly.
class Fractions {
 public:
  Fractions(const Magnitude* low, const Magnitude* high, size_t max_digits)
      : low_(low), high_(high), max_digits_(max_digits) {}

  GrammarExpr all() const {
    std::vector<GrammarExpr> cases;
    if (may_end(0, low_ != nullptr, high_ != nullptr)) cases.push_back(text_expr(""));
    cases.push_back(sequence_expr({text_expr("."), more(0, low_ != nullptr, high_ != nullptr)}));
    return choice_expr(std::move(cases));
  }

 private:
  static char at(const Magnitude* bound, size_t i) {
    return i < bound->fraction.size() ? bound->fraction[i] : '0';
  }

  // Whether the number may end behind i digits.
  bool may_end(size_t i, bool at_low, bool at_high) const {
    if (at_low && (i < low_->fraction.size() || low_->exclusive)) return false;
    return !at_high || i < high_->fraction.size() || !high_->exclusive;
  }

  GrammarExpr rest(size_t i, bool at_low, bool at_high) const {
    if (!at_low && !at_high) return digits(0, static_cast<int64_t>(max_digits_ - i));
    std::vector<GrammarExpr> cases;
    if (may_end(i, at_low, at_high)) cases.push_back(text_expr(""));
    cases.push_back(more(i, at_low, at_high));
    return choice_expr(std::move(cases));
  }

  // At least one more digit.
  GrammarExpr more(size_t i, bool at_low, bool at_high) const {
    if (i == max_digits_) return choice_expr({});
    if (at_low && i >= low_->fraction.size() && !low_->exclusive) at_low = false;
    const char first = at_low ? at(low_, i) : '0';
    const char last = at_high ? at(high_, i) : '9';
    std::vector<GrammarExpr> cases;
    const auto one = [&](char from, char to, bool low, bool high) {
      cases.push_back(sequence_expr({digit(from, to), rest(i + 1, low, high)}));
    };
    if (at_low && at_high && first == last) {
      one(first, last, true, true);
      return choice_expr(std::move(cases));
    }
    if (at_low) one(first, first, true, false);
    one(at_low ? next(first) : first, at_high ? previous(last) : last, false, false);
    if (at_high) one(last, last, false, true);
    return choice_expr(std::move(cases));
  }

  const Magnitude* low_;
  const Magnitude* high_;
  const size_t max_digits_;
};

GrammarExpr decimals(const OptionalMagnitude& low, const OptionalMagnitude& high) {
  size_t whole_digits = 1, fraction_digits = 1;
  for (const OptionalMagnitude* bound : {&low, &high}) {
    if (!bound->has_value()) continue;
    whole_digits = std::max(whole_digits, (*bound)->whole.size());
    fraction_digits = std::max(fraction_digits, (*bound)->fraction.size());
  }
  const size_t max_digits =
      std::max(fraction_digits, whole_digits >= 15 ? size_t{1} : 15 - whole_digits);
  const auto behind = [&](const std::string& whole, const Magnitude* l, const Magnitude* h) {
    return sequence_expr({text_expr(whole), Fractions(l, h, max_digits).all()});
  };
  const std::string first = low ? low->whole : "0";
  if (high && compare_whole(first, high->whole) > 0) return choice_expr({});
  if (high && first == high->whole) return behind(first, low ? &*low : nullptr, &*high);
  std::vector<GrammarExpr> cases;
  if (low) cases.push_back(behind(first, &*low, nullptr));
  const std::string inner = low ? plus_one(first) : "0";
  std::optional<std::string> last;
  if (high) last = high->whole == "0" ? high->whole : minus_one(high->whole);
  if (!high || high->whole != "0") {
    cases.push_back(
        sequence_expr({wholes(inner, last), Fractions(nullptr, nullptr, max_digits).all()}));
  }
  if (high) cases.push_back(behind(high->whole, nullptr, &*high));
  return choice_expr(std::move(cases));
}

template <typename Magnitudes>
GrammarExpr by_sign(const DecimalRange& range, Magnitudes magnitudes) {
  const auto magnitude = [](const DecimalBound& bound) {
    return Magnitude{bound.value.whole, bound.value.fraction, bound.exclusive};
  };
  const DecimalBound* low = range.low ? &*range.low : nullptr;
  const DecimalBound* high = range.high ? &*range.high : nullptr;
  std::vector<GrammarExpr> cases;
  if (low == nullptr || low->value.negative) {
    OptionalMagnitude least, most;  // of what is below zero
    if (high != nullptr && (high->value.negative || high->value.zero())) least = magnitude(*high);
    if (low != nullptr) most = magnitude(*low);
    cases.push_back(sequence_expr({text_expr("-"), magnitudes(least, most)}));
  }
  if (high == nullptr || !high->value.negative) {
    OptionalMagnitude least, most;
    if (low != nullptr && !low->value.negative) least = magnitude(*low);
    if (high != nullptr) most = magnitude(*high);
    cases.push_back(magnitudes(least, most));
  }
  return choice_expr(std::move(cases));
}

}  // namespace

std::optional<Decimal> decimal_of(const Json& number) {
  std::string text = number.is_number_float()      ? fmt::format("{}", number.get<double>())
                     : number.is_number_unsigned() ? fmt::format("{}", number.get<uint64_t>())
                                                   : fmt::format("{}", number.get<int64_t>());
  Decimal result;
  result.negative = text[0] == '-';
  if (result.negative) text.erase(0, 1);
  int exponent = 0;
  if (const size_t e = text.find('e'); e != std::string::npos) {
    exponent = std::stoi(text.substr(e + 1));  // fmt's own, at most three digits
    text.resize(e);
  }
  size_t point = std::min(text.find('.'), text.size());
  if (point < text.size()) text.erase(point, 1);
  const auto moved = static_cast<int64_t>(point) + exponent;
  if (moved < 0) text.insert(0, static_cast<size_t>(-moved), '0');
  if (moved > static_cast<int64_t>(text.size())) text.resize(static_cast<size_t>(moved), '0');
  point = static_cast<size_t>(std::max<int64_t>(moved, 0));
  result.whole = text.substr(0, point);
  result.fraction = text.substr(point);
  result.whole.erase(0, result.whole.find_first_not_of('0'));
  if (result.whole.empty()) result.whole = "0";
  result.fraction.erase(result.fraction.find_last_not_of('0') + 1);
  if (result.zero()) result.negative = false;
  if (std::max(result.whole.size(), result.fraction.size()) > kMaxDecimalDigits)
    return std::nullopt;
  return result;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  int order = compare_whole(a.whole, b.whole);
  if (order == 0) order = a.fraction.compare(b.fraction);
  return a.negative ? -order : order;
}

void DecimalRange::raise_low(const DecimalBound& bound) {
  const int order = low ? compare(bound.value, low->value) : 1;
  if (order > 0 || (order == 0 && bound.exclusive)) low = bound;
}

void DecimalRange::lower_high(const DecimalBound& bound) {
  const int order = high ? compare(bound.value, high->value) : -1;
  if (order < 0 || (order == 0 && bound.exclusive)) high = bound;
}

bool DecimalRange::contains(const Decimal& value) const {
  if (low) {
    const int order = compare(value, low->value);
    if (order < 0 || (order == 0 && low->exclusive)) return false;
  }
  if (!high) return true;
  const int order = compare(value, high->value);
  return order < 0 || (order == 0 && !high->exclusive);
}

GrammarExpr integers_in(const DecimalRange& range) { return by_sign(range, integers); }

GrammarExpr numbers_in(const DecimalRange& range) {
  if (range.bounded()) return by_sign(range, decimals);
  const GrammarExpr fraction = sequence_expr({text_expr("."), digits(1, -1)});
  // Up to 299: what any reader takes for a finite number, unless the digits in front are many.
  const GrammarExpr exponent =
      sequence_expr({chars_expr({{'E', 'E'}, {'e', 'e'}}),
                     repeat_expr(chars_expr({{'+', '+'}, {'-', '-'}}), 0, 1),
                     choice_expr({digits(1, 2), sequence_expr({digit('1', '2'), digits(2, 2)})})});
  return sequence_expr({integers_in({}), repeat_expr(fraction, 0, 1), repeat_expr(exponent, 0, 1)});
}

}  // namespace minim
