// Filters on text. All print their input first, as Python's str() would, and keep each character's
// origin.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja_filter_table.h"
#include "text/jinja_runtime.h"
#include "text/python_chars.h"

namespace minim::jinja {
namespace {

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
  const std::vector<Text> lines = text_split_lines(rt, text, false);
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
  for (const Text& word : text_words(rt, text)) {
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

constexpr NamedFilter kFilters[] = {
    {"capitalize", capitalize}, {"center", center},       {"e", escape},
    {"escape", escape},         {"forceescape", escape},  {"format", format},
    {"indent", indent},         {"lower", lower},         {"replace", replace},
    {"safe", string_},          {"string", string_},      {"striptags", striptags},
    {"title", title},           {"trim", trim},           {"truncate", truncate},
    {"upper", upper},           {"urlencode", urlencode}, {"wordcount", wordcount},
};

}  // namespace

Filter find_text_filter(std::string_view name) { return find_in(kFilters, name); }

}  // namespace minim::jinja
