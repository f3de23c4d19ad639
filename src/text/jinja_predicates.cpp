// The tests behind "is": small questions about one value.
#include <fmt/format.h>

#include <cmath>

#include "text/jinja_runtime.h"
#include "text/python_chars.h"

namespace minim::jinja {
namespace {

bool no_arguments(Runtime& rt, std::string_view name, const Args& args) {
  return Params(rt, name, args, {}).ok();
}

template <Kind kind>
bool is_kind(Runtime& rt, const Value& v, const Args& args) {
  return no_arguments(rt, "test", args) && v.is(kind);
}

bool defined(Runtime& rt, const Value& v, const Args& args) {
  return no_arguments(rt, "defined", args) && !v.is(Kind::kUndefined);
}

bool true_(Runtime& rt, const Value& v, const Args& args) {
  return no_arguments(rt, "true", args) && v.is(Kind::kBool) && v.as_bool();
}
bool false_(Runtime& rt, const Value& v, const Args& args) {
  return no_arguments(rt, "false", args) && v.is(Kind::kBool) && !v.as_bool();
}
bool number(Runtime& rt, const Value& v, const Args& args) {
  return no_arguments(rt, "number", args) && v.is_number();
}

bool callable(Runtime& rt, const Value& v, const Args& args) {
  // jinja2's Undefined has a __call__ (that raises), and so Python's callable() says yes.
  return no_arguments(rt, "callable", args) &&
         (v.is(Kind::kUndefined) || (v.is(Kind::kObject) && v.object()->callable()));
}

bool iterable(Runtime& rt, const Value& v, const Args& args) {
  return no_arguments(rt, "iterable", args) &&
         (v.is(Kind::kUndefined) || v.is_string() || v.is(Kind::kList) || v.is(Kind::kDict));
}

bool sequence(Runtime& rt, const Value& v, const Args& args) {
  if (!no_arguments(rt, "sequence", args)) return false;
  if (v.is(Kind::kList))
    return v.list().kind <= ListKind::kGroup || v.list().kind == ListKind::kRange;
  return v.is(Kind::kUndefined) || v.is_string() || v.is(Kind::kDict);
}

// v % divisor == 0.
bool divides(Runtime& rt, const Value& v, const Value& divisor) {
  const Value rest = rt.binary(Op::kMod, v, divisor);
  return !rt.failed() && rt.equal(rest, Value::integer(0));
}
bool divisibleby(Runtime& rt, const Value& v, const Args& args) {
  Params p(rt, "divisibleby", args, {"num"}, 1);
  return p.ok() && divides(rt, v, p.value(0));
}
bool even(Runtime& rt, const Value& v, const Args& args) {
  return no_arguments(rt, "even", args) && divides(rt, v, Value::integer(2));
}
bool odd(Runtime& rt, const Value& v, const Args& args) {
  if (!no_arguments(rt, "odd", args)) return false;
  const Value rest = rt.binary(Op::kMod, v, Value::integer(2));
  return !rt.failed() && rt.equal(rest, Value::integer(1));
}

// str.islower / str.isupper: at least one cased character, and all of them of this case.
bool all_cased(const Text& text, bool lower) {
  bool seen = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = next_code_point(text.view(), &pos);
    if (python_is_title(c) || (lower ? python_is_upper(c) : python_is_lower(c))) return false;
    seen |= lower ? python_is_lower(c) : python_is_upper(c);
  }
  return seen;
}
bool lower(Runtime& rt, const Value& v, const Args& args) {
  return no_arguments(rt, "lower", args) && all_cased(rt.str(v), true);
}
bool upper(Runtime& rt, const Value& v, const Args& args) {
  return no_arguments(rt, "upper", args) && all_cased(rt.str(v), false);
}

template <Op op>
bool compared(Runtime& rt, const Value& v, const Args& args) {
  Params p(rt, "comparison", args, {"other"}, 1);
  return p.ok() && rt.compare(op, v, p.value(0));
}

bool in(Runtime& rt, const Value& v, const Args& args) {
  Params p(rt, "in", args, {"seq"}, 1);
  return p.ok() && rt.contains(p.value(0), v);
}
bool sameas(Runtime& rt, const Value& v, const Args& args) {
  Params p(rt, "sameas", args, {"other"}, 1);
  return p.ok() && v.same(p.value(0));
}

bool filter(Runtime& rt, const Value& v, const Args& args) {
  bool refused = false;
  return no_arguments(rt, "filter", args) && v.is_string() &&
         find_filter(v.text().view(), &refused) != nullptr;
}
bool test(Runtime& rt, const Value& v, const Args& args) {
  return no_arguments(rt, "test", args) && v.is_string() &&
         find_predicate(v.text().view()) != nullptr;
}

constexpr std::pair<std::string_view, Predicate> kPredicates[] = {
    {"boolean", is_kind<Kind::kBool>},
    {"callable", callable},
    {"defined", defined},
    {"divisibleby", divisibleby},
    {"even", even},
    {"false", false_},
    {"filter", filter},
    {"float", is_kind<Kind::kFloat>},
    {"in", in},
    {"integer", is_kind<Kind::kInt>},
    {"iterable", iterable},
    {"lower", lower},
    {"mapping", is_kind<Kind::kDict>},
    {"none", is_kind<Kind::kNone>},
    {"number", number},
    {"odd", odd},
    {"sameas", sameas},
    {"sequence", sequence},
    {"string", is_kind<Kind::kString>},
    {"test", test},
    {"true", true_},
    {"undefined", is_kind<Kind::kUndefined>},
    {"upper", upper},
    {"eq", compared<Op::kEq>},
    {"==", compared<Op::kEq>},
    {"equalto", compared<Op::kEq>},
    {"ne", compared<Op::kNe>},
    {"!=", compared<Op::kNe>},
    {"lt", compared<Op::kLt>},
    {"<", compared<Op::kLt>},
    {"lessthan", compared<Op::kLt>},
    {"le", compared<Op::kLe>},
    {"<=", compared<Op::kLe>},
    {"gt", compared<Op::kGt>},
    {">", compared<Op::kGt>},
    {"greaterthan", compared<Op::kGt>},
    {"ge", compared<Op::kGe>},
    {">=", compared<Op::kGe>},
};

}  // namespace

Predicate find_predicate(std::string_view name) {
  for (const auto& [known, predicate] : kPredicates) {
    if (known == name) return predicate;
  }
  return nullptr;
}

}  // namespace minim::jinja
