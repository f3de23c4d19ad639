// Filters on sequences. Python's lazy ones give generators here too (printed as such, read once),
// but their items are computed at once: a template cannot tell, except by errors in items that it
// never looks at.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja_filter_table.h"
#include "text/jinja_runtime.h"

namespace minim::jinja {
namespace {

using Items = std::vector<Value>;
using Keyed = std::vector<std::pair<Value, Value>>;

// "a.b.0" as the steps of a lookup; numbers and other values are one step.
Items attribute_path(const Value& attribute) {
  if (attribute.is(Kind::kNone) || attribute.is(Kind::kUndefined)) return {};
  if (!attribute.is_string()) return {attribute};
  Items path;
  std::string_view rest = attribute.text().view();
  for (;;) {
    const size_t dot = std::min(rest.find('.'), rest.size());
    const std::string part(rest.substr(0, dot));
    const bool number = !part.empty() && part.size() < 18 &&
                        part.find_first_not_of("0123456789") == std::string::npos;
    path.push_back(number ? Value::integer(std::stoll(part)) : Value::string(part));
    if (dot == rest.size()) return path;
    rest.remove_prefix(dot + 1);
  }
}

Value follow(Runtime& rt, Value item, const Items& path, const Value* otherwise) {
  for (const Value& step : path) {
    item = rt.item(item, step);
    if (rt.failed()) return Value();
    if (otherwise && !otherwise->is(Kind::kNone) && item.is(Kind::kUndefined)) item = *otherwise;
  }
  return item;
}

Value fold_case(Value value, bool case_sensitive) {
  if (case_sensitive || !value.is_string()) return value;
  return Value::string(text_lower(value.text()));
}

Value batch(Runtime& rt, const Value& v, const Args& args) {
  Params p(rt, "batch", args, {"linecount", "fill_with"}, 1);
  const Int size = p.integer(0, 1);
  Items items;
  if (!p.ok() || !rt.iterate(v, &items)) return Value();
  Items rows, row;
  for (Value& item : items) {
    if (static_cast<Int>(row.size()) == size) rows.push_back(rt.list(std::exchange(row, {})));
    row.push_back(std::move(item));
  }
  if (!row.empty()) {
    const bool fill = p.has(1) && !p.value(1).is(Kind::kNone);
    while (fill && static_cast<Int>(row.size()) < size && rt.spend()) row.push_back(p.value(1));
    rows.push_back(rt.list(std::move(row)));
  }
  return rt.list(std::move(rows), ListKind::kGenerator);
}

Value slice(Runtime& rt, const Value& v, const Args& args) {
  Params p(rt, "slice", args, {"slices", "fill_with"}, 1);
  const Int wanted = p.integer(0, 1);
  Items items;
  if (!p.ok() || !rt.iterate(v, &items)) return Value();
  if (wanted == 0) return rt.fail("integer division or modulo by zero");
  if (wanted < 0) return rt.list({}, ListKind::kGenerator);
  if (!rt.spend(static_cast<uint64_t>(std::min<Int>(wanted, Int{1} << 60)))) return Value();
  const size_t slices = static_cast<size_t>(wanted);
  const bool fill = p.has(1) && !p.value(1).is(Kind::kNone);
  Items rows;
  size_t begin = 0;
  for (size_t i = 0; i < slices; ++i) {
    const bool extra = i < items.size() % slices;
    const size_t end = begin + items.size() / slices + (extra ? 1 : 0);
    Items row(items.begin() + static_cast<std::ptrdiff_t>(begin),
              items.begin() + static_cast<std::ptrdiff_t>(end));
    if (fill && !extra) row.push_back(p.value(1));
    rows.push_back(rt.list(std::move(row)));
    begin = end;
  }
  return rt.list(std::move(rows), ListKind::kGenerator);
}

Value list_of_values(Runtime& rt, Keyed keyed) {
  Items out;
  out.reserve(keyed.size());
  for (auto& [key, value] : keyed) out.push_back(std::move(value));
  return rt.list(std::move(out));
}

Value dictsort(Runtime& rt, const Value& v, const Args& args) {
  Params p(rt, "dictsort", args, {"case_sensitive", "by", "reverse"});
  const Text by = p.text(1, "key");
  if (!p.ok()) return Value();
  if (v.is(Kind::kUndefined)) return rt.fail_undefined(v);
  if (!v.is(Kind::kDict))
    return rt.fail(fmt::format("'{}' object has no attribute 'items'", type_name(v)));
  if (by.view() != "key" && by.view() != "value")
    return rt.fail("dictsort sorts by \"key\" or \"value\"");
  Keyed keyed;
  for (const auto& [key, value] : v.dict().items) {
    keyed.emplace_back(fold_case(by.view() == "key" ? key : value, p.flag(0, false)),
                       rt.list({key, value}, ListKind::kTuple));
  }
  sort_values(rt, &keyed, p.flag(2, false));
  return list_of_values(rt, std::move(keyed));
}

Value first(Runtime& rt, const Value& v, const Args& args) {
  Items items;
  if (!Params(rt, "first", args, {}).ok() || !rt.iterate(v, &items)) return Value();
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

Value last(Runtime& rt, const Value& v, const Args& args) {
  Items items;
  if (!Params(rt, "last", args, {}).ok()) return Value();
  if (v.is(Kind::kList) && v.list().kind == ListKind::kGenerator)
    return rt.fail("'generator' object is not reversible");
  if (!rt.iterate(v, &items)) return Value();
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

// Items with their sort keys. The attribute may name several paths, with commas.
bool keyed_items(Runtime& rt, const Value& v, const Value& attribute, bool case_sensitive,
                 bool several, Keyed* out) {
  Items items;
  if (!rt.iterate(v, &items)) return false;
  std::vector<Items> paths;
  if (several && attribute.is_string()) {
    std::string_view rest = attribute.text().view();
    for (;;) {
      const size_t comma = std::min(rest.find(','), rest.size());
      paths.push_back(attribute_path(Value::string(std::string(rest.substr(0, comma)))));
      if (comma == rest.size()) break;
      rest.remove_prefix(comma + 1);
    }
  } else {
    paths.push_back(attribute_path(attribute));
  }
  for (Value& item : items) {
    Items keys;
    for (const Items& path : paths)
      keys.push_back(fold_case(follow(rt, item, path, nullptr), case_sensitive));
    if (rt.failed()) return false;
    Value key = keys.size() == 1 ? keys[0] : rt.list(std::move(keys));
    out->emplace_back(std::move(key), std::move(item));
  }
  return true;
}

Value sort(Runtime& rt, const Value& v, const Args& args) {
  Params p(rt, "sort", args, {"reverse", "case_sensitive", "attribute"});
  Keyed keyed;
  if (!p.ok() || !keyed_items(rt, v, p.value(2), p.flag(1, false), true, &keyed)) return Value();
  sort_values(rt, &keyed, p.flag(0, false));
  return list_of_values(rt, std::move(keyed));
}

Value extreme(Runtime& rt, const Value& v, const Args& args, std::string_view name, bool largest) {
  Params p(rt, name, args, {"case_sensitive", "attribute"});
  Keyed keyed;
  if (!p.ok() || !keyed_items(rt, v, p.value(1), p.flag(0, false), false, &keyed)) return Value();
  if (keyed.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  for (size_t i = 1; i < keyed.size(); ++i) {
    const bool better = largest ? rt.less(keyed[best].first, keyed[i].first)
                                : rt.less(keyed[i].first, keyed[best].first);
    if (better) best = i;
  }
  return keyed[best].second;
}

Value max(Runtime& rt, const Value& v, const Args& args) {
  return extreme(rt, v, args, "max", true);
}
Value min(Runtime& rt, const Value& v, const Args& args) {
  return extreme(rt, v, args, "min", false);
}

Value unique(Runtime& rt, const Value& v, const Args& args) {
  Params p(rt, "unique", args, {"case_sensitive", "attribute"});
  Keyed keyed;
  if (!p.ok() || !keyed_items(rt, v, p.value(1), p.flag(0, false), false, &keyed)) return Value();
  Dict seen;
  Items out;
  for (auto& [key, value] : keyed) {
    if (!rt.spend_key(key)) return Value();
    std::string name;
    if (!dict_key(key, &name)) return rt.fail(fmt::format("unhashable type: '{}'", type_name(key)));
    if (seen.find(key) != Dict::npos) continue;
    seen.set(key, Value::none());
    out.push_back(std::move(value));
  }
  return rt.list(std::move(out), ListKind::kGenerator);
}

Value groupby(Runtime& rt, const Value& v, const Args& args) {
  Params p(rt, "groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  Items items;
  if (!p.ok() || !rt.iterate(v, &items)) return Value();
  const bool case_sensitive = p.flag(2, false);
  const Items path = attribute_path(p.value(0));
  Keyed keyed;
  for (Value& item : items) {
    Value key = fold_case(follow(rt, item, path, p.has(1) ? &p.value(1) : nullptr), case_sensitive);
    if (rt.failed()) return Value();
    keyed.emplace_back(std::move(key), std::move(item));
  }
  sort_values(rt, &keyed, false);
  Items groups;
  for (size_t begin = 0; begin < keyed.size() && !rt.failed();) {
    Items members;
    size_t end = begin;
    for (; end < keyed.size() && rt.equal(keyed[begin].first, keyed[end].first); ++end)
      members.push_back(keyed[end].second);
    if (end == begin) ++end;  // a key that does not equal itself (NaN)
    // The group shows the first member's own spelling of the key, not the folded one.
    Value shown = follow(rt, keyed[begin].second, path, p.has(1) ? &p.value(1) : nullptr);
    groups.push_back(rt.list({std::move(shown), rt.list(std::move(members))}, ListKind::kGroup));
    begin = end;
  }
  return rt.list(std::move(groups));
}

Value items_(Runtime& rt, const Value& v, const Args& args) {
  if (!Params(rt, "items", args, {}).ok()) return Value();
  Items out;
  if (!v.is(Kind::kUndefined) && !v.is(Kind::kDict))
    return rt.fail("Can only get item pairs from a mapping.");
  if (v.is(Kind::kDict)) {
    for (const auto& [key, value] : v.dict().items)
      out.push_back(rt.list({key, value}, ListKind::kTuple));
  }
  return rt.list(std::move(out), ListKind::kGenerator);
}

Value join(Runtime& rt, const Value& v, const Args& args) {
  Params p(rt, "join", args, {"d", "attribute"});
  Items items;
  if (!p.ok() || !rt.iterate(v, &items)) return Value();
  const Text separator = p.has(0) ? rt.str(p.value(0)) : Text();
  const Items path = attribute_path(p.value(1));
  Text out;
  for (size_t i = 0; i < items.size() && !rt.failed(); ++i) {
    if (i > 0) out.append(separator);
    out.append(rt.str(follow(rt, items[i], path, nullptr)));
    if (out.size() > kMaxStringBytes) rt.room(out.size());
  }
  return rt.string(std::move(out));
}

Value list(Runtime& rt, const Value& v, const Args& args) {
  Items items;
  if (!Params(rt, "list", args, {}).ok() || !rt.iterate(v, &items)) return Value();
  return rt.list(std::move(items));
}

Filter filter_named(Runtime& rt, const Value& name) {
  if (!name.is_string()) return rt.fail("a filter's name must be a string"), nullptr;
  bool refused = false;
  const Filter filter = find_filter(name.text().view(), &refused);
  if (!filter)
    rt.fail(fmt::format("{} filter '{}'", refused ? "unsupported" : "no", name.text().bytes()));
  return filter;
}

Value map(Runtime& rt, const Value& v, const Args& args) {
  Items items, out;
  if (!rt.iterate(v, &items)) return Value();
  if (args.positional.empty() && args.find("attribute")) {
    Params p(rt, "map", args, {"attribute", "default"});
    const Items path = attribute_path(p.value(0));
    for (Value& item : items) {
      if (!p.ok() || rt.failed()) return Value();
      out.push_back(follow(rt, std::move(item), path, p.has(1) ? &p.value(1) : nullptr));
    }
    return rt.list(std::move(out), ListKind::kGenerator);
  }
  if (args.positional.empty()) return rt.fail("map requires a filter argument");
  const Filter filter = filter_named(rt, args.positional[0]);
  if (!filter) return Value();
  Args rest{{args.positional.begin() + 1, args.positional.end()}, args.named};
  for (const Value& item : items) {
    if (!rt.spend() || !rt.enter()) return Value();
    out.push_back(filter(rt, item, rest));
    rt.leave();
  }
  return rt.list(std::move(out), ListKind::kGenerator);
}

Value pick(Runtime& rt, const Value& v, const Args& args, bool wanted, bool by_attribute) {
  Items items, out;
  if (!rt.iterate(v, &items)) return Value();
  size_t used = 0;
  Items path;
  if (by_attribute) {
    if (args.positional.empty()) return rt.fail("missing parameter for attribute name");
    path = attribute_path(args.positional[used++]);
  }
  Predicate test = nullptr;
  Args rest;
  if (used < args.positional.size()) {
    const Value& name = args.positional[used++];
    if (name.is_string()) test = find_predicate(name.text().view());
    if (!test) return rt.fail(fmt::format("no test named '{}'", rt.str(name).bytes()));
    rest =
        Args{{args.positional.begin() + static_cast<std::ptrdiff_t>(used), args.positional.end()},
             args.named};
  }
  for (const Value& item : items) {
    const Value subject = follow(rt, item, path, nullptr);
    if (!rt.spend()) return Value();
    const bool passes = test ? test(rt, subject, rest) : rt.truthy(subject);
    if (rt.failed()) return Value();
    if (passes == wanted) out.push_back(item);
  }
  return rt.list(std::move(out), ListKind::kGenerator);
}

Value select(Runtime& rt, const Value& v, const Args& args) {
  return pick(rt, v, args, true, false);
}
Value reject(Runtime& rt, const Value& v, const Args& args) {
  return pick(rt, v, args, false, false);
}
Value selectattr(Runtime& rt, const Value& v, const Args& args) {
  return pick(rt, v, args, true, true);
}
Value rejectattr(Runtime& rt, const Value& v, const Args& args) {
  return pick(rt, v, args, false, true);
}

Value reverse(Runtime& rt, const Value& v, const Args& args) {
  if (!Params(rt, "reverse", args, {}).ok()) return Value();
  Items items;
  if (!rt.iterate(v, &items)) return Value();
  std::reverse(items.begin(), items.end());
  if (!v.is_string()) return rt.list(std::move(items), ListKind::kGenerator);
  Text out;
  for (const Value& c : items) out.append(c.text());
  return rt.string(std::move(out));
}

Value sum(Runtime& rt, const Value& v, const Args& args) {
  Params p(rt, "sum", args, {"attribute", "start"});
  Items items;
  if (!p.ok() || !rt.iterate(v, &items)) return Value();
  const Items path = attribute_path(p.value(0));
  Value total = p.has(1) ? p.value(1) : Value::integer(0);
  if (total.is_string()) return rt.fail("sum() can't sum strings");
  for (Value& item : items) {
    if (rt.failed()) return Value();
    total = rt.binary(Op::kAdd, total, follow(rt, std::move(item), path, nullptr));
  }
  return total;
}

constexpr NamedFilter kFilters[] = {
    {"batch", batch},
    {"dictsort", dictsort},
    {"first", first},
    {"groupby", groupby},
    {"items", items_},
    {"join", join},
    {"last", last},
    {"list", list},
    {"map", map},
    {"max", max},
    {"min", min},
    {"reject", reject},
    {"reverse", reverse},
    {"rejectattr", rejectattr},
    {"select", select},
    {"slice", slice},
    {"sort", sort},
    {"sum", sum},
    {"selectattr", selectattr},
    {"unique", unique},
};

}  // namespace

Filter find_sequence_filter(std::string_view name) { return find_in(kFilters, name); }

// A merge sort of our own: std::stable_sort wants an order without contradictions, and NaN or a
// failure half-way break that.
void sort_values(Runtime& rt, Keyed* keyed, bool reverse) {
  if (reverse) std::reverse(keyed->begin(), keyed->end());
  Keyed other(keyed->size());
  for (size_t width = 1; width < keyed->size() && !rt.failed(); width *= 2) {
    for (size_t begin = 0; begin < keyed->size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, keyed->size());
      const size_t end = std::min(begin + 2 * width, keyed->size());
      for (size_t left = begin, right = middle, to = begin; to < end; ++to) {
        const bool take_right =
            left == middle || (right < end && rt.less((*keyed)[right].first, (*keyed)[left].first));
        other[to] = std::move((*keyed)[take_right ? right++ : left++]);
      }
    }
    std::swap(*keyed, other);
  }
  if (reverse) std::reverse(keyed->begin(), keyed->end());
}

}  // namespace minim::jinja
