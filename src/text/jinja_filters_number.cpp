// Filters that make numbers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "text/jinja_filter_table.h"
#include "text/jinja_runtime.h"

namespace minim::jinja {
namespace {

Value abs_(Runtime& rt, const Value& v, const Args& args) {
  if (!Params(rt, "abs", args, {}).ok()) return Value();
  if (v.is(Kind::kUndefined)) return rt.fail_undefined(v);
  if (v.is_integral()) return v.as_int() < 0 ? rt.negate(v) : Value::integer(v.as_int());
  if (v.is(Kind::kFloat)) return Value::real(std::fabs(v.as_real()));
  return rt.fail(fmt::format("bad operand type for abs(): '{}'", type_name(v)));
}

Value float_(Runtime& rt, const Value& v, const Args& args) {
  Params p(rt, "float", args, {"default"});
  if (!p.ok()) return Value();
  if (v.is(Kind::kUndefined)) return rt.fail_undefined(v);
  if (v.is_number()) return Value::real(v.as_real());
  if (v.is_string()) {
    if (const auto number = parse_python_float(v.text().view())) return Value::real(*number);
  }
  return p.has(0) ? p.value(0) : Value::real(0.0);
}

Value int_(Runtime& rt, const Value& v, const Args& args) {
  Params p(rt, "int", args, {"default", "base"});
  const Int base = p.integer(1, 10);
  if (!p.ok()) return Value();
  if (v.is(Kind::kUndefined)) return rt.fail_undefined(v);
  if (v.is_integral()) return Value::integer(v.as_int());
  std::optional<double> number;
  if (v.is(Kind::kFloat)) number = v.as_real();
  if (v.is_string()) {
    if (base >= 0 && base <= 36) {
      if (const auto whole = parse_python_int(v.text().view(), static_cast<int>(base)))
        return Value::integer(*whole);
    }
    number = parse_python_float(v.text().view());  // so that "42.23" gives 42
  }
  if (number && std::isfinite(*number)) {
    if (std::fabs(*number) > 1e38) return rt.fail("an integer does not fit 128 bits");
    return Value::integer(static_cast<Int>(*number));
  }
  return p.has(0) ? p.value(0) : Value::integer(0);
}

double round_half_even(double value, int digits) {
  if (!std::isfinite(value) || digits > 323) return value;
  if (digits < -308) return 0.0 * value;
  if (digits < 0) {
    const double scale = std::pow(10.0, -digits);
    return std::nearbyint(value / scale) * scale;
  }
  // Through the decimal spelling, as CPython: the only way that is right for every double.
  char buffer[800];
  std::snprintf(buffer, sizeof buffer, "%.*f", digits, value);
  return std::strtod(buffer, nullptr);
}

Value round_(Runtime& rt, const Value& v, const Args& args) {
  Params p(rt, "round", args, {"precision", "method"});
  const Int wanted = p.integer(0, 0);
  const Text method = p.text(1, "common");
  if (!p.ok()) return Value();
  if (v.is(Kind::kUndefined)) return rt.fail_undefined(v);
  if (!v.is_number())
    return rt.fail(fmt::format("type {} doesn't define __round__ method", type_name(v)));
  const int digits = static_cast<int>(std::clamp<Int>(wanted, -400, 400));
  if (method.view() == "common") {
    if (v.is(Kind::kFloat)) return Value::real(round_half_even(v.as_real(), digits));
    if (digits >= 0) return Value::integer(v.as_int());
    return Value::integer(static_cast<Int>(round_half_even(v.as_real(), digits)));
  }
  if (method.view() != "ceil" && method.view() != "floor")
    return rt.fail("method must be common, ceil or floor");
  const double scale = std::pow(10.0, digits);
  const double scaled = v.as_real() * scale;
  if (!std::isfinite(scaled)) return rt.fail("cannot round this number");
  return Value::real((method.view() == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

constexpr NamedFilter kFilters[] = {
    {"abs", abs_},
    {"float", float_},
    {"int", int_},
    {"round", round_},
};

}  // namespace

Filter find_number_filter(std::string_view name) { return find_in(kFilters, name); }

}  // namespace minim::jinja
