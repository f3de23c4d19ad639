// Filters on single values: text, numbers, JSON. Those on sequences are in
// jinja_filters_sequence.cpp. A filter that jinja2 has and this file lacks is refused by its name,
// never skipped.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/jinja_filter_table.h"
#include "text/jinja_runtime.h"
#include "text/python_chars.h"
#include "text/python_repr.h"

namespace minim::jinja {
namespace {

Value abs_(Runtime& rt, const Value& v, const Args& args) {
  if (!Params(rt, "abs", args, {}).ok()) return Value();
  if (v.is(Kind::kUndefined)) return rt.fail_undefined(v);
  if (v.is_integral()) return v.as_int() < 0 ? rt.negate(v) : Value::integer(v.as_int());
  if (v.is(Kind::kFloat)) return Value::real(std::fabs(v.as_real()));
  return rt.fail(fmt::format("bad operand type for abs(): '{}'", type_name(v)));
}

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

Value capitalize(Runtime& rt, const Value& v, const Args& args) {
  if (!Params(rt, "capitalize", args, {}).ok()) return Value();
  return rt.string(text_capitalize(rt.str(v)));
}

Value center(Runtime& rt, const Value& v, const Args& args) {
  Params p(rt, "center", args, {"width"});
  const Int width = p.integer(0, 80);
  if (!p.ok() || !rt.room(static_cast<uint64_t>(std::clamp<Int>(width, 0, Int{1} << 60))))
    return Value();
  return rt.string(text_center(rt.str(v), width, " "));
}

Value default_(Runtime& rt, const Value& v, const Args& args) {
  Params p(rt, "default", args, {"default_value", "boolean"});
  if (!p.ok()) return Value();
  if (!v.is(Kind::kUndefined) && !(p.flag(1, false) && !rt.truthy(v))) return v;
  return p.has(0) ? p.value(0) : Value::string(Text());
}

Value escape(Runtime& rt, const Value& v, const Args& args) {
  if (!Params(rt, "escape", args, {}).ok()) return Value();
  const Text text = rt.str(v);
  Text out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool origin = text.from_template_at(i);
    switch (text.view()[i]) {
      case '&':
        out.append("&amp;", origin);
        break;
      case '<':
        out.append("&lt;", origin);
        break;
      case '>':
        out.append("&gt;", origin);
        break;
      case '"':
        out.append("&#34;", origin);
        break;
      case '\'':
        out.append("&#39;", origin);
        break;
      default:
        out.append(text.view().substr(i, 1), origin);
    }
  }
  return rt.string(std::move(out));
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

Value format(Runtime& rt, const Value& v, const Args& args) {
  if (!args.positional.empty() && !args.named.empty()) {
    return rt.fail("format takes positional or keyword arguments, not both");
  }
  const Text text = rt.str(v);
  if (args.named.empty())
    return rt.percent_format(text, rt.list(args.positional, ListKind::kTuple));
  Dict named;
  for (const auto& [name, value] : args.named) named.set(Value::string(name), value);
  return rt.percent_format(text, rt.dict(std::move(named)));
}

Value indent(Runtime& rt, const Value& v, const Args& args) {
  Params p(rt, "indent", args, {"width", "first", "blank"});
  if (!p.ok()) return Value();
  if (v.is(Kind::kUndefined)) return rt.fail_undefined(v);
  if (!v.is_string()) return rt.fail(fmt::format("indent wants a string, got '{}'", type_name(v)));
  Text margin;
  if (p.has(0) && p.value(0).is_string()) {
    margin = p.value(0).text();
  } else {
    const Int width = std::max<Int>(p.integer(0, 4), 0);
    if (!p.ok() || !rt.room(static_cast<uint64_t>(std::min<Int>(width, Int{1} << 60))))
      return Value();
    margin = Text(std::string(static_cast<size_t>(width), ' '), false);
  }
  Text text = v.text();
  text.append("\n", false);  // so that a text ending in a line end keeps an empty last line
  const std::vector<Text> lines = text_split_lines(text, false);
  if (!rt.room(text.size() + lines.size() * (margin.size() + 1))) return Value();
  const bool blank = p.flag(2, false);
  Text out;
  if (p.flag(1, false)) out.append(margin);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.append("\n", false);
    if (i > 0 && (blank || !lines[i].empty())) out.append(margin);
    out.append(lines[i]);
  }
  return Value::string(std::move(out));
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

Value length(Runtime& rt, const Value& v, const Args& args) {
  if (!Params(rt, "length", args, {}).ok()) return Value();
  if (const auto n = rt.length(v)) return Value::integer(static_cast<Int>(*n));
  return rt.fail(fmt::format("object of type '{}' has no len()", type_name(v)));
}

Value lower(Runtime& rt, const Value& v, const Args& args) {
  if (!Params(rt, "lower", args, {}).ok()) return Value();
  return rt.string(text_lower(rt.str(v)));
}

Value upper(Runtime& rt, const Value& v, const Args& args) {
  if (!Params(rt, "upper", args, {}).ok()) return Value();
  return rt.string(text_upper(rt.str(v)));
}

Value replace(Runtime& rt, const Value& v, const Args& args) {
  Params p(rt, "replace", args, {"old", "new", "count"}, 2);
  const Int count = p.integer(2, -1, true);
  if (!p.ok()) return Value();
  return rt.string(text_replace(rt, rt.str(v), rt.str(p.value(0)), rt.str(p.value(1)), count));
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

Value string_(Runtime& rt, const Value& v, const Args& args) {
  if (!Params(rt, "string", args, {}).ok()) return Value();
  return rt.string(rt.str(v));
}

// Tags and comments out, whitespace runs to one blank, the five common entities back to characters.
Value striptags(Runtime& rt, const Value& v, const Args& args) {
  if (!Params(rt, "striptags", args, {}).ok()) return Value();
  Text text = rt.str(v);
  for (const auto& [open, close] :
       {std::pair<std::string_view, std::string_view>{"<!--", "-->"}, {"<", ">"}}) {
    Text kept;
    size_t pos = 0;
    for (;;) {
      const size_t begin = text.view().find(open, pos);
      const size_t end = begin == std::string_view::npos ? begin : text.view().find(close, begin);
      if (end == std::string_view::npos) break;
      kept.append(text, pos, begin);
      pos = end + close.size();
    }
    kept.append(text, pos, text.size());
    text = std::move(kept);
  }
  Text joined;
  for (const Text& word : text_words(text)) {
    if (!joined.empty()) joined.append(" ", false);
    joined.append(word);
  }
  static constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"&lt;", "<"},    {"&gt;", ">"},  {"&#34;", "\""},
      {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}};
  for (const auto& [from, to] : kEntities) {
    joined =
        text_replace(rt, joined, Text(std::string(from), false), Text(std::string(to), false), -1);
  }
  return rt.string(std::move(joined));
}

bool starts_word(char32_t c) {
  return python_is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
}

Value title(Runtime& rt, const Value& v, const Args& args) {
  if (!Params(rt, "title", args, {}).ok()) return Value();
  const Text text = rt.str(v);
  Text out;
  size_t pos = 0;
  while (pos < text.size()) {
    // One stretch of separators or of everything else: its first character up, the rest down.
    const size_t begin = pos;
    size_t first_end = pos;
    const bool separator = starts_word(next_code_point(text.view(), &first_end));
    for (pos = first_end; pos < text.size();) {
      size_t after = pos;
      if (starts_word(next_code_point(text.view(), &after)) != separator) break;
      pos = after;
    }
    out.append(text_upper(text.slice(begin, first_end)));
    out.append(text_lower(text.slice(first_end, pos)));
  }
  return rt.string(std::move(out));
}

Value trim(Runtime& rt, const Value& v, const Args& args) {
  Params p(rt, "trim", args, {"chars"});
  if (!p.ok()) return Value();
  const Text text = rt.str(v);
  if (!p.has(0) || p.value(0).is(Kind::kNone)) return rt.string(text_strip(text, nullptr, 3));
  const Text chars = p.text(0, "");
  return p.ok() ? rt.string(text_strip(text, &chars, 3)) : Value();
}

Value truncate(Runtime& rt, const Value& v, const Args& args) {
  Params p(rt, "truncate", args, {"length", "killwords", "end", "leeway"});
  const Int length = p.integer(0, 255);
  const bool killwords = p.flag(1, false);
  const Text end = p.text(2, "...");
  const Int leeway = p.integer(3, 5, true);
  if (!p.ok()) return Value();
  const Int end_size = static_cast<Int>(count_code_points(end.view()));
  if (length < end_size)
    return rt.fail("truncate: length must not be less than that of the end mark");
  if (leeway < 0) return rt.fail("truncate: leeway must not be negative");
  const auto size = rt.length(v);
  if (!size) return rt.fail(fmt::format("object of type '{}' has no len()", type_name(v)));
  if (static_cast<Int>(*size) - length <= leeway) return v;
  if (!v.is_string()) return rt.fail("truncate wants a string");
  Text kept =
      v.text().slice(0, byte_offset(v.text().view(), static_cast<size_t>(length - end_size)));
  if (!killwords) {
    const size_t blank = kept.view().rfind(' ');
    if (blank != std::string_view::npos) kept = kept.slice(0, blank);
  }
  kept.append(end);
  return rt.string(std::move(kept));
}

std::string url_quote(std::string_view text, bool query) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                       c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !query);
    if (plain)
      out += c;
    else if (c == ' ' && query)
      out += '+';
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

Value urlencode(Runtime& rt, const Value& v, const Args& args) {
  if (!Params(rt, "urlencode", args, {}).ok()) return Value();
  if (!v.is(Kind::kDict) && !v.is(Kind::kList))
    return rt.string(url_quote(rt.str(v).view(), false));
  std::string out;
  const auto add = [&](const Value& key, const Value& value) {
    if (!out.empty()) out += '&';
    out += fmt::format("{}={}", url_quote(rt.str(key).view(), true),
                       url_quote(rt.str(value).view(), true));
  };
  if (v.is(Kind::kDict)) {
    for (const auto& [key, value] : v.dict().items) add(key, value);
    return rt.string(std::move(out));
  }
  std::vector<Value> items;
  if (!rt.iterate(v, &items)) return Value();
  for (const Value& item : items) {
    std::vector<Value> pair;
    if (!rt.iterate(item, &pair)) return Value();
    if (pair.size() != 2) return rt.fail("urlencode wants pairs");
    add(pair[0], pair[1]);
  }
  return rt.string(std::move(out));
}

Value wordcount(Runtime& rt, const Value& v, const Args& args) {
  if (!Params(rt, "wordcount", args, {}).ok()) return Value();
  const Text text = rt.str(v);
  Int words = 0;
  bool inside = false;
  for (size_t pos = 0; pos < text.size();) {
    const bool word = python_is_word(next_code_point(text.view(), &pos));
    words += word && !inside;
    inside = word;
  }
  return Value::integer(words);
}

// --- tojson ---

class JsonWriter {
 public:
  JsonWriter(Runtime& rt, bool ensure_ascii, std::optional<Text> indent, Text item_separator,
             Text key_separator, bool sort_keys)
      : rt_(rt),
        ascii_(ensure_ascii),
        indent_(std::move(indent)),
        comma_(std::move(item_separator)),
        colon_(std::move(key_separator)),
        sort_(sort_keys) {}

  Value run(const Value& value) {
    write(value, 0);
    return rt_.string(std::move(out_));
  }

 private:
  void put(std::string_view text) { out_.append(text, false); }

  void write(const Value& value, size_t level) {
    if (!rt_.spend()) return;
    if (out_.size() > kMaxStringBytes) return void(rt_.room(out_.size()));
    switch (value.kind()) {
      case Kind::kNone:
        return put("null");
      case Kind::kBool:
        return put(value.as_bool() ? "true" : "false");
      case Kind::kInt:
        return put(int_to_string(value.as_int()));
      case Kind::kFloat:
        return put(json_float(value.as_real()));
      case Kind::kString:
        return string(value.text());
      case Kind::kDict:
        return dict(value.dict(), level);
      case Kind::kList:
        if (value.list().kind <= ListKind::kGroup) return list(value.list(), level);
        break;
      default:
        break;
    }
    rt_.fail(fmt::format("Object of type {} is not JSON serializable", type_name(value)));
  }

  void string(const Text& text) {
    if (!rt_.spend(text.size() / 64)) return;
    put("\"");
    std::string piece;
    for (size_t pos = 0; pos < text.size();) {
      const size_t begin = pos;
      const char32_t c = next_code_point(text.view(), &pos);
      piece.clear();
      append_json_escaped(c, text.view().substr(begin, pos - begin), ascii_, &piece);
      out_.append(piece, text.from_template_at(begin));
    }
    put("\"");
  }

  void new_line(size_t level) {
    if (!indent_) return;
    put("\n");
    for (size_t i = 0; i < level && !rt_.failed(); ++i) {
      out_.append(*indent_);
      if (out_.size() > kMaxStringBytes) rt_.room(out_.size());
    }
  }

  void list(const List& list, size_t level) {
    if (list.items.empty()) return put("[]");
    put("[");
    bool first = true;
    for (const Value& item : list.items) {
      if (rt_.failed()) return;
      if (!std::exchange(first, false)) out_.append(comma_);
      new_line(level + 1);
      write(item, level + 1);
    }
    new_line(level);
    put("]");
  }

  void key(const Value& key) {
    switch (key.kind()) {
      case Kind::kString:
        return string(key.text());
      case Kind::kNone:
        return put("\"null\"");
      case Kind::kBool:
        return put(key.as_bool() ? "\"true\"" : "\"false\"");
      case Kind::kInt:
        return put(fmt::format("\"{}\"", int_to_string(key.as_int())));
      case Kind::kFloat:
        return put(fmt::format("\"{}\"", json_float(key.as_real())));
      default:
        rt_.fail(fmt::format("keys must be str, int, float, bool or None, not {}", type_name(key)));
    }
  }

  void dict(const Dict& dict, size_t level) {
    if (dict.items.empty()) return put("{}");
    std::vector<std::pair<Value, Value>> items = dict.items;
    if (sort_) sort_values(rt_, &items, false);
    put("{");
    bool first = true;
    for (const auto& [name, value] : items) {
      if (rt_.failed()) return;
      if (!std::exchange(first, false)) out_.append(comma_);
      new_line(level + 1);
      key(name);
      out_.append(colon_);
      write(value, level + 1);
    }
    new_line(level);
    put("}");
  }

  Runtime& rt_;
  bool ascii_;
  std::optional<Text> indent_;
  Text comma_, colon_;
  bool sort_;
  Text out_;
};

// json.dumps(value, ensure_ascii, indent, separators, sort_keys) with the defaults of transformers.
Value tojson(Runtime& rt, const Value& v, const Args& args) {
  Params p(rt, "tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  if (!p.ok()) return Value();
  std::optional<Text> indent;
  if (p.has(1) && p.value(1).is_string()) {
    indent = p.value(1).text();
  } else if (p.has(1) && !p.value(1).is(Kind::kNone)) {
    const Int width = std::max<Int>(p.integer(1, 0), 0);
    if (!p.ok() || !rt.room(static_cast<uint64_t>(std::min<Int>(width, Int{1} << 60))))
      return Value();
    indent = Text(std::string(static_cast<size_t>(width), ' '), false);
  }
  Text comma(indent ? "," : ", ", false);
  Text colon(": ", false);
  if (p.has(2) && !p.value(2).is(Kind::kNone)) {
    std::vector<Value> pair;
    if (!rt.iterate(p.value(2), &pair)) return Value();
    if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string())
      return rt.fail("tojson: separators must be two strings");
    comma = pair[0].text();
    colon = pair[1].text();
  }
  return JsonWriter(rt, p.flag(0, false), std::move(indent), std::move(comma), std::move(colon),
                    p.flag(3, false))
      .run(v);
}

constexpr std::pair<std::string_view, Filter> kFilters[] = {
    {"abs", abs_},
    {"attr", attr},
    {"capitalize", capitalize},
    {"center", center},
    {"count", length},
    {"d", default_},
    {"default", default_},
    {"e", escape},
    {"escape", escape},
    {"float", float_},
    {"forceescape", escape},
    {"format", format},
    {"indent", indent},
    {"int", int_},
    {"length", length},
    {"lower", lower},
    {"replace", replace},
    {"round", round_},
    {"safe", string_},
    {"string", string_},
    {"striptags", striptags},
    {"title", title},
    {"tojson", tojson},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", upper},
    {"urlencode", urlencode},
    {"wordcount", wordcount},
};

constexpr std::string_view kRefused[] = {"filesizeformat", "pprint",   "random",
                                         "urlize",         "wordwrap", "xmlattr"};

}  // namespace

Filter find_filter(std::string_view name, bool* refused) {
  *refused = std::find(std::begin(kRefused), std::end(kRefused), name) != std::end(kRefused);
  for (const auto& [known, filter] : kFilters) {
    if (known == name) return filter;
  }
  return find_sequence_filter(name);
}

}  // namespace minim::jinja
