// Python's arithmetic: True is 1, "/" gives a float, "//" and "%" round toward minus infinity,
// integers never wrap (outside 128 bits they are an error), sequences add and repeat.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/jinja_runtime.h"

namespace minim::jinja {
namespace {

std::string_view spelling(Op op) {
  switch (op) {
    case Op::kAdd:
      return "+";
    case Op::kSub:
      return "-";
    case Op::kMul:
      return "*";
    case Op::kDiv:
      return "/";
    case Op::kFloorDiv:
      return "//";
    case Op::kMod:
      return "%";
    case Op::kPow:
      return "** or pow()";
    default:
      return "?";
  }
}

constexpr std::string_view kTooLarge = "an integer does not fit 128 bits";

Int floor_div(Int a, Int b) {
  const Int q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

double floor_mod(double a, double b) {
  double m = std::fmod(a, b);
  if (m != 0 && (b < 0) != (m < 0)) m += b;
  return m == 0 ? std::copysign(0.0, b) : m;
}

// As CPython's float_floor_div: from the remainder, so that 1 // 0.1 is 9.0.
double floor_div(double a, double b) {
  double m = std::fmod(a, b);
  double q = (a - m) / b;
  if (m != 0 && (b < 0) != (m < 0)) q -= 1;
  if (q == 0) return std::copysign(0.0, a / b);
  const double f = std::floor(q);
  return q - f > 0.5 ? f + 1 : f;
}

bool is_plain_list(const Value& v) { return v.is(Kind::kList) && v.list().kind == ListKind::kList; }
bool is_tuple(const Value& v) {
  return v.is(Kind::kList) &&
         (v.list().kind == ListKind::kTuple || v.list().kind == ListKind::kGroup);
}

}  // namespace

Value Runtime::int_arithmetic(Op op, Int a, Int b) {
  Int out = 0;
  switch (op) {
    case Op::kAdd:
      if (__builtin_add_overflow(a, b, &out)) return fail(std::string(kTooLarge));
      return Value::integer(out);
    case Op::kSub:
      if (__builtin_sub_overflow(a, b, &out)) return fail(std::string(kTooLarge));
      return Value::integer(out);
    case Op::kMul:
      if (__builtin_mul_overflow(a, b, &out)) return fail(std::string(kTooLarge));
      return Value::integer(out);
    case Op::kDiv:
      if (b == 0) return fail("division by zero");
      return Value::real(
          static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
    case Op::kFloorDiv:
    case Op::kMod:
      if (b == 0) return fail("integer division or modulo by zero");
      if (b == -1) return op == Op::kMod ? Value::integer(0) : int_arithmetic(Op::kSub, 0, a);
      return Value::integer(op == Op::kFloorDiv ? floor_div(a, b) : a - floor_div(a, b) * b);
    case Op::kPow:
      break;
    default:
      return Value();
  }
  if (b < 0) return real_arithmetic(op, static_cast<double>(a), static_cast<double>(b));
  if (b > 128 && a != 0 && a != 1 && a != -1) return fail(std::string(kTooLarge));
  out = 1;
  for (Int i = a == 0 || a == 1 || a == -1 ? (b == 0 ? 0 : 2 - b % 2) : b; i > 0; --i) {
    if (__builtin_mul_overflow(out, a, &out)) return fail(std::string(kTooLarge));
  }
  return Value::integer(out);
}

Value Runtime::real_arithmetic(Op op, double a, double b) {
  switch (op) {
    case Op::kAdd:
      return Value::real(a + b);
    case Op::kSub:
      return Value::real(a - b);
    case Op::kMul:
      return Value::real(a * b);
    case Op::kDiv:
      return b == 0 ? fail("float division by zero") : Value::real(a / b);
    case Op::kFloorDiv:
      return b == 0 ? fail("float floor division by zero") : Value::real(floor_div(a, b));
    case Op::kMod:
      return b == 0 ? fail("float modulo") : Value::real(floor_mod(a, b));
    case Op::kPow: {
      if (a == 0 && b < 0) return fail("0.0 cannot be raised to a negative power");
      if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b)) {
        return fail("a negative number to a fractional power is complex, which is not supported");
      }
      const double out = std::pow(a, b);
      if (std::isinf(out) && std::isfinite(a) && std::isfinite(b))
        return fail("the result of ** is too large");
      return Value::real(out);
    }
    default:
      return Value();
  }
}

Value Runtime::repeat(const Value& sequence, Int times) {
  const size_t size = sequence.is_string() ? sequence.text().size() : sequence.list().items.size();
  if (times < 0 || size == 0) times = 0;
  const Int total = static_cast<Int>(size) * std::min<Int>(times, Int{1} << 40);
  if (sequence.is_string()) {
    if (!room(static_cast<uint64_t>(std::min<Int>(total, Int{1} << 62)))) return Value();
    // Runs of one origin melt into one, others stay as many as there are repeats.
    const size_t runs = sequence.text().runs().size();
    if (runs > 1 && !spend(runs * static_cast<uint64_t>(times))) return Value();
    Text out = times > 0 ? sequence.text() : Text();
    for (Int done = 1, more; done < times; done += more) {
      more = std::min(done, times - done);
      out.append(out.slice(0, size * static_cast<size_t>(more)));
    }
    return Value::string(std::move(out));
  }
  if (!spend(static_cast<uint64_t>(std::min<Int>(total, Int{1} << 62)))) return Value();
  std::vector<Value> items;
  const auto& source = sequence.list().items;
  for (Int i = 0; i < times; ++i) items.insert(items.end(), source.begin(), source.end());
  return list(std::move(items), is_tuple(sequence) ? ListKind::kTuple : ListKind::kList);
}

Value Runtime::binary(Op op, const Value& a, const Value& b) {
  if (!spend()) return Value();
  if (op == Op::kMod && a.is_string()) return percent_format(a.text(), b);
  if (a.is(Kind::kUndefined)) return fail_undefined(a);
  if (b.is(Kind::kUndefined)) return fail_undefined(b);
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return int_arithmetic(op, a.as_int(), b.as_int());
    return real_arithmetic(op, a.as_real(), b.as_real());
  }
  if (op == Op::kAdd && a.is_string() && b.is_string()) {
    if (!room(a.text().size() + b.text().size())) return Value();
    Text out = a.text();
    out.append(b.text());
    return Value::string(std::move(out));
  }
  if (op == Op::kAdd && ((is_plain_list(a) && is_plain_list(b)) || (is_tuple(a) && is_tuple(b)))) {
    if (!spend(a.list().items.size())) return Value();
    std::vector<Value> items = a.list().items;
    items.insert(items.end(), b.list().items.begin(), b.list().items.end());
    return list(std::move(items), is_tuple(a) ? ListKind::kTuple : ListKind::kList);
  }
  const auto repeats = [](const Value& v) {
    return v.is_string() || is_plain_list(v) || is_tuple(v);
  };
  if (op == Op::kMul && repeats(a) && b.is_integral()) return repeat(a, b.as_int());
  if (op == Op::kMul && repeats(b) && a.is_integral()) return repeat(b, a.as_int());
  if (op == Op::kAdd && a.is_string()) {
    return fail(fmt::format("can only concatenate str (not \"{}\") to str", type_name(b)));
  }
  return fail(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", spelling(op),
                          type_name(a), type_name(b)));
}

bool Runtime::compare(Op op, const Value& a, const Value& b) {
  // NaN makes "a <= b" differ from "not b < a".
  const bool numbers = a.is_number() && b.is_number();
  switch (op) {
    case Op::kEq:
      return equal(a, b);
    case Op::kNe:
      return !equal(a, b);
    case Op::kLt:
      return less(a, b);
    case Op::kGt:
      return less(b, a);
    case Op::kLe:
      return numbers ? less(a, b) || equal(a, b) : !less(b, a);
    case Op::kGe:
      return numbers ? less(b, a) || equal(a, b) : !less(a, b);
    case Op::kIn:
      return contains(b, a);
    case Op::kNotIn:
      return !contains(b, a);
    default:
      return false;
  }
}

Value Runtime::negate(const Value& value) {
  if (value.is(Kind::kUndefined)) return fail_undefined(value);
  if (value.is_integral()) return int_arithmetic(Op::kSub, 0, value.as_int());
  if (value.is(Kind::kFloat)) return Value::real(-value.as_real());
  return fail(fmt::format("bad operand type for unary -: '{}'", type_name(value)));
}

Value Runtime::slice(const Value& object, const Value& start, const Value& stop,
                     const Value& step) {
  if (object.is(Kind::kUndefined)) return fail_undefined(object);
  const bool listed =
      object.is(Kind::kList) && (object.list().kind == ListKind::kList || is_tuple(object) ||
                                 object.list().kind == ListKind::kRange);
  if (!listed && !object.is_string())
    return fail(fmt::format("'{}' object is not subscriptable", type_name(object)));
  for (const Value* part : {&start, &stop, &step}) {
    if (!part->is(Kind::kNone) && !part->is_integral())
      return fail("slice indices must be integers or None");
  }
  const Int stride = step.is(Kind::kNone) ? 1 : step.as_int();
  if (stride == 0) return fail("slice step cannot be zero");
  const size_t size = *length(object);
  if (failed()) return Value();
  const Int n = static_cast<Int>(size);
  const Int low = stride > 0 ? 0 : -1;
  const Int high = stride > 0 ? n : n - 1;
  const auto bound = [&](const Value& v, Int otherwise) {
    if (v.is(Kind::kNone)) return otherwise;
    const Int i = v.as_int() < 0 ? std::max(v.as_int(), -n - 1) + n : v.as_int();
    return std::clamp(i, std::min(low, high), std::max(low, high));
  };
  const Int from = bound(start, stride > 0 ? low : high);
  const Int to = bound(stop, stride > 0 ? high : low);

  if (object.is_string() && stride == 1) {
    const std::string_view text = object.text().view();
    const size_t begin = byte_offset(text, static_cast<size_t>(from));
    const size_t count = static_cast<size_t>(std::max<Int>(to - from, 0));
    return string(object.text().slice(begin, begin + byte_offset(text.substr(begin), count)));
  }
  std::vector<Value> items;
  if (!iterate(object, &items)) return Value();
  std::vector<Value> picked;
  const Int hop = std::clamp<Int>(stride, -n - 1, n + 1);
  for (Int i = from; hop > 0 ? i < to : i > to; i += hop)
    picked.push_back(items[static_cast<size_t>(i)]);
  if (object.is_string()) {
    Text out;
    for (const Value& c : picked) out.append(c.text());
    return string(std::move(out));
  }
  if (object.list().kind != ListKind::kRange)
    return list(std::move(picked), is_tuple(object) ? ListKind::kTuple : ListKind::kList);
  auto made = std::make_shared<List>();
  made->kind = ListKind::kRange;
  made->items = std::move(picked);
  made->start = object.list().start + from * object.list().step;
  made->stop = object.list().start + to * object.list().step;
  made->step = object.list().step * hop;
  return Value::list(std::move(made));
}

}  // namespace minim::jinja
