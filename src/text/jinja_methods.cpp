// Methods of dict, list, tuple and float, and the way to those of str. Methods that would change a
// list or mapping are missing on purpose: the immutable sandbox hides them, so "x.append is
// defined" is false and calling one is an error.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/jinja_method_table.h"

namespace minim::jinja {
namespace {

// --- dict ---

Value dict_get(Runtime& rt, const Value& self, const Args& args) {
  Params p(rt, "get", args, {"key", "default"}, 1);
  if (!p.ok() || !rt.spend_key(p.value(0))) return Value();
  std::string name;
  if (!dict_key(p.value(0), &name))
    return rt.fail(fmt::format("unhashable type: '{}'", type_name(p.value(0))));
  const size_t at = self.dict().find(p.value(0));
  if (at != Dict::npos) return self.dict().items[at].second;
  return p.has(1) ? p.value(1) : Value::none();
}

template <ListKind kind>
Value dict_view(Runtime& rt, const Value& self, const Args& args) {
  if (!Params(rt, "dict method", args, {}).ok() || !rt.spend(self.dict().items.size()))
    return Value();
  std::vector<Value> out;
  out.reserve(self.dict().items.size());
  for (const auto& [key, value] : self.dict().items) {
    if (kind == ListKind::kDictKeys)
      out.push_back(key);
    else if (kind == ListKind::kDictValues)
      out.push_back(value);
    else
      out.push_back(rt.list({key, value}, ListKind::kTuple));
  }
  return rt.list(std::move(out), kind);
}

Value copy(Runtime& rt, const Value& self, const Args& args) {
  return Params(rt, "copy", args, {}).ok() ? self : Value();
}

// --- list, tuple, range ---

Value list_count(Runtime& rt, const Value& self, const Args& args) {
  Params p(rt, "count", args, {"value"}, 1);
  if (!p.ok()) return Value();
  Int n = 0;
  for (const Value& item : self.list().items) n += rt.equal(item, p.value(0));
  return Value::integer(n);
}

Value list_index(Runtime& rt, const Value& self, const Args& args) {
  Params p(rt, "index", args, {"value", "start", "stop"}, 1);
  const Int n = static_cast<Int>(self.list().items.size());
  Int from = p.integer(1, 0), to = p.integer(2, n);
  if (!p.ok()) return Value();
  if (from < 0) from = std::max<Int>(from + n, 0);
  if (to < 0) to = std::max<Int>(to + n, 0);
  for (Int i = from; i < std::min(to, n); ++i) {
    if (rt.equal(self.list().items[static_cast<size_t>(i)], p.value(0))) return Value::integer(i);
  }
  return rt.fail("the value is not in the list");
}

// --- numbers ---

Value is_integer(Runtime& rt, const Value& self, const Args& args) {
  if (!Params(rt, "is_integer", args, {}).ok()) return Value();
  const double d = self.as_real();
  return Value::boolean(std::isfinite(d) && d == std::trunc(d));
}

constexpr NamedMethod kDict[] = {
    {"copy", copy},
    {"get", dict_get},
    {"items", dict_view<ListKind::kDictItems>},
    {"keys", dict_view<ListKind::kDictKeys>},
    {"values", dict_view<ListKind::kDictValues>},
};
constexpr NamedMethod kList[] = {{"copy", copy}, {"count", list_count}, {"index", list_index}};
constexpr NamedMethod kTuple[] = {{"count", list_count}, {"index", list_index}};
constexpr NamedMethod kFloat[] = {{"is_integer", is_integer}};

Method find_method(const Value& self, std::string_view name) {
  switch (self.kind()) {
    case Kind::kString: {
      const Method method = find_letters_method(name);
      return method ? method : find_search_method(name);
    }
    case Kind::kDict:
      return find_in(kDict, name);
    case Kind::kFloat:
      return find_in(kFloat, name);
    case Kind::kList:
      if (self.list().kind == ListKind::kList) return find_in(kList, name);
      if (self.list().kind < ListKind::kGenerator || self.list().kind == ListKind::kRange)
        return find_in(kTuple, name);
      return nullptr;
    default:
      return nullptr;
  }
}

}  // namespace

bool has_method(const Value& self, std::string_view name) {
  return find_method(self, name) != nullptr;
}

Value call_method(Runtime& runtime, const Value& self, std::string_view name, const Args& args) {
  const Method method = find_method(self, name);
  if (!method)
    return runtime.fail(fmt::format("'{} object' has no method '{}'", type_name(self), name));
  // Reading a long string has a price.
  if (self.is_string() && !runtime.spend(1 + self.text().size() / 256)) return Value();
  return method(runtime, self, args);
}

}  // namespace minim::jinja
