// Which filters there are, and those on values of any type. A filter that jinja2 has and this
// program lacks is refused by its name, never skipped.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja_filter_table.h"
#include "text/jinja_runtime.h"

namespace minim::jinja {
namespace {

Value attr(Runtime& rt, const Value& v, const Args& args) {
  Params p(rt, "attr", args, {"name"}, 1);
  const Text name = p.text(0, "");
  if (!p.ok()) return Value();
  // Only true attributes count here, not items: a mapping's entry hides behind an undefined value.
  if (v.is(Kind::kDict) && !has_method(v, name.view())) {
    return Value::undefined(fmt::format("'dict object' has no attribute '{}'", name.bytes()));
  }
  return rt.attribute(v, name.view());
}

Value default_(Runtime& rt, const Value& v, const Args& args) {
  Params p(rt, "default", args, {"default_value", "boolean"});
  if (!p.ok()) return Value();
  if (!v.is(Kind::kUndefined) && !(p.flag(1, false) && !rt.truthy(v))) return v;
  return p.has(0) ? p.value(0) : Value::string(Text());
}

Value length(Runtime& rt, const Value& v, const Args& args) {
  if (!Params(rt, "length", args, {}).ok()) return Value();
  if (const auto n = rt.length(v)) return Value::integer(static_cast<Int>(*n));
  return rt.fail(fmt::format("object of type '{}' has no len()", type_name(v)));
}

constexpr NamedFilter kFilters[] = {
    {"attr", attr},        {"count", length},  {"d", default_},
    {"default", default_}, {"length", length}, {"tojson", tojson},
};

constexpr std::string_view kRefused[] = {"filesizeformat", "pprint",   "random",
                                         "urlize",         "wordwrap", "xmlattr"};

Filter find_value_filter(std::string_view name) { return find_in(kFilters, name); }

}  // namespace

Filter find_filter(std::string_view name, bool* refused) {
  *refused = std::find(std::begin(kRefused), std::end(kRefused), name) != std::end(kRefused);
  for (const auto find :
       {&find_value_filter, &find_text_filter, &find_number_filter, &find_sequence_filter}) {
    if (const Filter filter = find(name)) return filter;
  }
  return nullptr;
}

}  // namespace minim::jinja
