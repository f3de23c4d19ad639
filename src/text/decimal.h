// Numbers of a JSON schema as decimal digits, so that bounds are compared and written exactly.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "text/grammar_rules.h"

namespace minim {

struct Decimal {
  bool negative = false;
  std::string whole = "0";  // without leading zeros
  std::string fraction;     // without trailing zeros

  bool zero() const { return whole == "0" && fraction.empty(); }
};

// Nothing for a number of more than kMaxDecimalDigits digits in front of or behind the point.
inline constexpr size_t kMaxDecimalDigits = 64;
std::optional<Decimal> decimal_of(const Json& number);
// Negative, zero or positive as a is below, equal to or above b.
int compare(const Decimal& a, const Decimal& b);

struct DecimalBound {
  Decimal value;
  bool exclusive = false;
};

struct DecimalRange {
  std::optional<DecimalBound> low;
  std::optional<DecimalBound> high;

  void raise_low(const DecimalBound& bound);  // keeps the tighter one
  void lower_high(const DecimalBound& bound);
  bool contains(const Decimal& value) const;
  bool bounded() const { return low.has_value() || high.has_value(); }
};

// JSON numbers in the range. Integers are written without fraction and exponent. Others in a
// bounded range are written without exponent and with at most 15 digits behind the point (more
// where a bound has more), so that reading them as doubles cannot carry them across a bound.
GrammarExpr integers_in(const DecimalRange& range);
GrammarExpr numbers_in(const DecimalRange& range);

}  // namespace minim
