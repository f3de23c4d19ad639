// Truth, equality, order, membership, length and iteration with Python's meaning. Everything that
// walks a container pays for its items first.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/jinja_runtime.h"

namespace minim::jinja {
namespace {

// What compares with each other: a group is a tuple with names.
ListKind family(ListKind kind) { return kind == ListKind::kGroup ? ListKind::kTuple : kind; }

bool equal_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.as_int() == b.as_int();
  if (a.is(Kind::kFloat) && b.is(Kind::kFloat)) return a.as_real() == b.as_real();
  const double real = a.is(Kind::kFloat) ? a.as_real() : b.as_real();
  const Int whole = a.is(Kind::kFloat) ? b.as_int() : a.as_int();
  return std::fabs(real) < 1e38 && real == std::trunc(real) && static_cast<Int>(real) == whole;
}

}  // namespace

bool Runtime::truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.as_int() != 0;
    case Kind::kFloat:
      return value.as_real() != 0;
    case Kind::kString:
      return !value.text().empty();
    case Kind::kList:
      return value.list().kind == ListKind::kGenerator || !value.list().items.empty();
    case Kind::kDict:
      return !value.dict().items.empty();
    case Kind::kObject:
      return true;
  }
  return false;
}

bool Runtime::equal(const Value& a, const Value& b) {
  if (!spend()) return false;
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      return spend(std::min(a.text().size(), b.text().size()) / 256) &&
             a.text().view() == b.text().view();
    case Kind::kObject:
      return a.object() == b.object();
    case Kind::kList:
      return equal_lists(a.list(), b.list());
    case Kind::kDict:
      return equal_dicts(a.dict(), b.dict());
    default:
      return false;
  }
}

bool Runtime::equal_lists(const List& x, const List& y) {
  if (&x == &y) return true;
  if (family(x.kind) != family(y.kind) || x.kind == ListKind::kGenerator ||
      x.kind == ListKind::kDictValues || x.items.size() != y.items.size()) {
    return false;
  }
  const bool set = x.kind == ListKind::kDictKeys || x.kind == ListKind::kDictItems;
  for (size_t i = 0; i < x.items.size(); ++i) {
    const bool found =
        set ? std::any_of(y.items.begin(), y.items.end(),
                          [&](const Value& other) { return equal(x.items[i], other); })
            : equal(x.items[i], y.items[i]);
    if (!found) return false;
  }
  return true;
}

bool Runtime::equal_dicts(const Dict& x, const Dict& y) {
  if (&x == &y) return true;
  if (x.items.size() != y.items.size()) return false;
  for (const auto& [key, value] : x.items) {
    const size_t at = y.find(key);
    if (at == Dict::npos || !equal(value, y.items[at].second)) return false;
  }
  return true;
}

bool Runtime::less(const Value& a, const Value& b) {
  if (!spend()) return false;
  if (a.is(Kind::kUndefined)) return fail_undefined(a), false;
  if (b.is(Kind::kUndefined)) return fail_undefined(b), false;
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.as_int() < b.as_int();
    if (a.is(Kind::kFloat) && b.is(Kind::kFloat)) return a.as_real() < b.as_real();
    // 64-bit mantissas hold both a double and a 64-bit integer exactly.
    const auto wide = [](const Value& v) {
      return v.is(Kind::kFloat) ? static_cast<long double>(v.as_real())
                                : static_cast<long double>(v.as_int());
    };
    return wide(a) < wide(b);
  }
  if (a.is_string() && b.is_string()) {
    return spend(std::min(a.text().size(), b.text().size()) / 256) &&
           a.text().view() < b.text().view();
  }
  if (a.is(Kind::kList) && b.is(Kind::kList)) {
    const ListKind kind = family(a.list().kind);
    if (kind == family(b.list().kind) && (kind == ListKind::kList || kind == ListKind::kTuple)) {
      const auto& x = a.list().items;
      const auto& y = b.list().items;
      for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
        if (!equal(x[i], y[i])) return !failed() && less(x[i], y[i]);
      }
      return x.size() < y.size();
    }
  }
  fail(fmt::format("'<' not supported between instances of '{}' and '{}'", type_name(a),
                   type_name(b)));
  return false;
}

bool Runtime::contains(const Value& container, const Value& item) {
  if (!spend()) return false;
  if (container.is_string()) {
    if (item.is(Kind::kUndefined) || !item.is_string()) {
      fail(fmt::format("'in <string>' requires string as left operand, not {}", type_name(item)));
      return false;
    }
    if (!spend_search(container.text().view(), item.text().view())) return false;
    return container.text().view().find(item.text().view()) != std::string_view::npos;
  }
  if (container.is(Kind::kDict)) {
    if (!spend_key(item)) return false;
    std::string key;
    if (!dict_key(item, &key)) {
      fail(fmt::format("unhashable type: '{}'", type_name(item)));
      return false;
    }
    return container.dict().find(item) != Dict::npos;
  }
  std::vector<Value> items;
  if (container.is(Kind::kList) && container.list().kind != ListKind::kGenerator) {
    for (const Value& other : container.list().items) {
      if (equal(other, item)) return true;
      if (failed()) return false;
    }
    return false;
  }
  if (!container.is(Kind::kUndefined) && !container.is(Kind::kList)) {
    fail(fmt::format("argument of type '{}' is not iterable", type_name(container)));
    return false;
  }
  if (!iterate(container, &items)) return false;
  return std::any_of(items.begin(), items.end(),
                     [&](const Value& other) { return equal(other, item); });
}

bool Runtime::iterate(const Value& value, std::vector<Value>* out) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return true;
    case Kind::kString:
      if (!spend(value.text().size()) || !room(value.text().size())) return false;
      for (Text& c : text_chars(value.text())) out->push_back(Value::string(std::move(c)));
      return true;
    case Kind::kList: {
      const List& list = value.list();
      if (list.kind == ListKind::kGenerator && std::exchange(list.used, true)) return true;
      if (!spend(list.items.size())) return false;
      out->insert(out->end(), list.items.begin(), list.items.end());
      return true;
    }
    case Kind::kDict:
      if (!spend(value.dict().items.size())) return false;
      for (const auto& entry : value.dict().items) out->push_back(entry.first);
      return true;
    default:
      break;
  }
  fail(fmt::format("'{}' object is not iterable", type_name(value)));
  return false;
}

std::optional<size_t> Runtime::length(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return spend(value.text().size() / 256) ? count_code_points(value.text().view()) : 0;
    case Kind::kDict:
      return value.dict().items.size();
    case Kind::kList:
      if (value.list().kind == ListKind::kGenerator) return std::nullopt;
      return value.list().items.size();
    default:
      return std::nullopt;
  }
}

}  // namespace minim::jinja
