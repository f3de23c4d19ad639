// Methods of str, dict, list and tuple. Those that would change a list or mapping are known to be
// missing on purpose: the immutable sandbox hides them, so "x.append is defined" is false and
// calling one is an error.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/jinja_runtime.h"
#include "text/python_chars.h"

namespace minim::jinja {
namespace {

using Method = Value (*)(Runtime&, const Value& self, const Args&);

// --- str ---

template <Text (*map)(const Text&)>
Value mapped(Runtime& rt, const Value& self, const Args& args) {
  if (!Params(rt, "str method", args, {}).ok()) return Value();
  return rt.string(map(self.text()));
}

Text swap_case(const Text& text) {
  Text out;
  std::string piece;
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const char32_t c = next_code_point(text.view(), &pos);
    piece.clear();
    if (python_is_upper(c))
      append_lower(c, &piece);
    else if (python_is_lower(c))
      append_upper(c, &piece);
    else
      append_utf8(piece, c);
    out.append(piece, text.from_template_at(begin));
  }
  return out;
}

// Every letter that follows a character without case starts a word.
Text title_case(const Text& text) {
  Text out;
  std::string piece;
  bool inside = false;
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const char32_t c = next_code_point(text.view(), &pos);
    piece.clear();
    if (inside)
      append_lower(c, &piece);
    else
      append_title(c, &piece);
    inside = python_is_cased(c);
    out.append(piece, text.from_template_at(begin));
  }
  return out;
}

template <int sides>
Value strip(Runtime& rt, const Value& self, const Args& args) {
  Params p(rt, "strip", args, {"chars"});
  if (!p.ok()) return Value();
  if (!p.has(0) || p.value(0).is(Kind::kNone))
    return rt.string(text_strip(self.text(), nullptr, sides));
  const Text chars = p.text(0, "");
  return p.ok() ? rt.string(text_strip(self.text(), &chars, sides)) : Value();
}

Value list_of_texts(Runtime& rt, std::vector<Text> texts, ListKind kind = ListKind::kList) {
  std::vector<Value> items;
  items.reserve(texts.size());
  for (Text& text : texts) items.push_back(rt.string(std::move(text)));
  return rt.list(std::move(items), kind);
}

// Splits at whitespace, at most `limit` times, from one end.
std::vector<Text> split_space(const Text& text, Int limit, bool from_right) {
  std::vector<Text> parts;
  Text rest = text_strip(text, nullptr, from_right ? 2 : 1);
  while (!rest.empty()) {
    if (limit >= 0 && static_cast<Int>(parts.size()) >= limit) {
      parts.push_back(rest);  // with the whitespace at its far end
      break;
    }
    size_t begin = 0, end = rest.size();
    const std::string_view bytes = rest.view();
    if (from_right) {
      for (size_t pos = 0; pos < bytes.size();) {
        if (python_is_space(next_code_point(bytes, &pos))) begin = pos;
      }
    } else {
      for (size_t pos = 0; pos < bytes.size();) {
        const size_t at = pos;
        if (python_is_space(next_code_point(bytes, &pos))) {
          end = at;
          break;
        }
      }
    }
    parts.push_back(rest.slice(begin, end));
    rest = from_right ? text_strip(rest.slice(0, begin), nullptr, 2)
                      : text_strip(rest.slice(end, rest.size()), nullptr, 1);
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Text> split_at(Runtime& rt, const Text& text, std::string_view separator, Int limit,
                           bool from_right) {
  std::vector<Text> parts;
  const std::string_view bytes = text.view();
  size_t begin = 0, end = bytes.size();
  while (limit < 0 || static_cast<Int>(parts.size()) < limit) {
    if (!rt.spend()) return {};
    if (from_right) {
      if (end < separator.size()) break;
      const size_t at = bytes.rfind(separator, end - separator.size());
      if (at == std::string_view::npos) break;
      parts.push_back(text.slice(at + separator.size(), end));
      end = at;
    } else {
      const size_t at = bytes.find(separator, begin);
      if (at == std::string_view::npos) break;
      parts.push_back(text.slice(begin, at));
      begin = at + separator.size();
    }
  }
  parts.push_back(text.slice(begin, end));
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

template <bool from_right>
Value split(Runtime& rt, const Value& self, const Args& args) {
  Params p(rt, "split", args, {"sep", "maxsplit"});
  const Int limit = p.integer(1, -1);
  if (!p.ok()) return Value();
  if (!p.has(0) || p.value(0).is(Kind::kNone)) {
    if (limit < 0) return list_of_texts(rt, text_words(rt, self.text()));
    // Each cut copies the rest, so cuts are paid for by the text's length.
    const Int cuts = std::min<Int>(limit, static_cast<Int>(self.text().size()));
    if (!rt.spend(static_cast<uint64_t>(cuts) * (1 + self.text().size() / 256))) return Value();
    return list_of_texts(rt, split_space(self.text(), limit, from_right));
  }
  const Text separator = p.text(0, "");
  if (!p.ok()) return Value();
  if (separator.empty()) return rt.fail("empty separator");
  if (!rt.spend_search(self.text().view(), separator.view())) return Value();
  return list_of_texts(rt, split_at(rt, self.text(), separator.view(), limit, from_right));
}

template <bool from_right>
Value partition(Runtime& rt, const Value& self, const Args& args) {
  Params p(rt, "partition", args, {"sep"}, 1);
  const Text separator = p.text(0, "");
  if (!p.ok()) return Value();
  if (separator.empty()) return rt.fail("empty separator");
  if (!rt.spend_search(self.text().view(), separator.view())) return Value();
  const Text& text = self.text();
  const size_t at =
      from_right ? text.view().rfind(separator.view()) : text.view().find(separator.view());
  if (at == std::string_view::npos) {
    if (from_right) return list_of_texts(rt, {Text(), Text(), text}, ListKind::kTuple);
    return list_of_texts(rt, {text, Text(), Text()}, ListKind::kTuple);
  }
  const size_t end = at + separator.size();
  return list_of_texts(rt, {text.slice(0, at), text.slice(at, end), text.slice(end, text.size())},
                       ListKind::kTuple);
}

Value splitlines(Runtime& rt, const Value& self, const Args& args) {
  Params p(rt, "splitlines", args, {"keepends"});
  if (!p.ok()) return Value();
  return list_of_texts(rt, text_split_lines(rt, self.text(), p.flag(0, false)));
}

// The bytes [begin, end) of a string that start and stop select, in code points; nothing if start
// lies behind the end.
std::optional<std::pair<size_t, size_t>> window(Params& p, std::string_view text, size_t first) {
  const Int n = static_cast<Int>(count_code_points(text));
  Int from = p.integer(first, 0, true);
  Int to = p.integer(first + 1, n, true);
  if (from < 0) from = std::max<Int>(from + n, 0);
  if (to < 0) to = std::max<Int>(to + n, 0);
  to = std::min(to, n);
  if (from > to) return std::nullopt;
  return std::pair(byte_offset(text, static_cast<size_t>(from)),
                   byte_offset(text, static_cast<size_t>(to)));
}

template <bool at_end>
Value starts_or_ends(Runtime& rt, const Value& self, const Args& args) {
  Params p(rt, at_end ? "endswith" : "startswith", args, {"prefix", "start", "end"}, 1);
  if (!p.ok()) return Value();
  const auto range = window(p, self.text().view(), 1);
  std::vector<Value> choices{p.value(0)};
  if (p.value(0).is(Kind::kList) && p.value(0).list().kind == ListKind::kTuple)
    choices = p.value(0).list().items;
  bool found = false;
  for (const Value& choice : choices) {
    if (!choice.is_string())
      return rt.fail(fmt::format("startswith first arg must be str or a tuple of str, not {}",
                                 type_name(choice)));
    if (!range) continue;
    const std::string_view part =
        self.text().view().substr(range->first, range->second - range->first);
    const std::string_view sought = choice.text().view();
    found |= part.size() >= sought.size() &&
             part.substr(at_end ? part.size() - sought.size() : 0, sought.size()) == sought;
  }
  return Value::boolean(found);
}

enum class Miss { kMinusOne, kError };

template <bool last, Miss miss>
Value find(Runtime& rt, const Value& self, const Args& args) {
  Params p(rt, "find", args, {"sub", "start", "end"}, 1);
  const Text sought = p.text(0, "");
  if (!p.ok() || !rt.spend_search(self.text().view(), sought.view())) return Value();
  const std::string_view text = self.text().view();
  if (const auto range = window(p, text, 1)) {
    const std::string_view part = text.substr(range->first, range->second - range->first);
    const size_t at = last ? part.rfind(sought.view()) : part.find(sought.view());
    if (at != std::string_view::npos)
      return Value::integer(static_cast<Int>(count_code_points(text.substr(0, range->first + at))));
  }
  return miss == Miss::kError ? rt.fail("substring not found") : Value::integer(-1);
}

Value count(Runtime& rt, const Value& self, const Args& args) {
  Params p(rt, "count", args, {"sub", "start", "end"}, 1);
  const Text sought = p.text(0, "");
  if (!p.ok() || !rt.spend_search(self.text().view(), sought.view())) return Value();
  const auto range = window(p, self.text().view(), 1);
  if (!range) return Value::integer(0);
  const std::string_view part =
      self.text().view().substr(range->first, range->second - range->first);
  if (sought.empty()) return Value::integer(static_cast<Int>(count_code_points(part)) + 1);
  Int n = 0;
  for (size_t at = part.find(sought.view()); at != std::string_view::npos;
       at = part.find(sought.view(), at + sought.size()))
    ++n;
  return Value::integer(n);
}

Value replace(Runtime& rt, const Value& self, const Args& args) {
  Params p(rt, "replace", args, {"old", "new", "count"}, 2);
  const Text from = p.text(0, ""), to = p.text(1, "");
  const Int limit = p.integer(2, -1);
  return p.ok() ? rt.string(text_replace(rt, self.text(), from, to, limit)) : Value();
}

Value join(Runtime& rt, const Value& self, const Args& args) {
  Params p(rt, "join", args, {"iterable"}, 1);
  std::vector<Value> items;
  if (!p.ok() || !rt.iterate(p.value(0), &items)) return Value();
  Text out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_string()) {
      return rt.fail(
          fmt::format("sequence item {}: expected str instance, {} found", i, type_name(items[i])));
    }
    if (i > 0) out.append(self.text());
    out.append(items[i].text());
    if (out.size() > kMaxStringBytes && !rt.room(out.size())) return Value();
  }
  return rt.string(std::move(out));
}

Value format(Runtime& rt, const Value& self, const Args& args) {
  return rt.brace_format(self.text(), args);
}

template <bool suffix>
Value remove_affix(Runtime& rt, const Value& self, const Args& args) {
  Params p(rt, suffix ? "removesuffix" : "removeprefix", args, {"affix"}, 1);
  const Text affix = p.text(0, "");
  if (!p.ok()) return Value();
  const Text& text = self.text();
  if (affix.size() > text.size()) return self;
  const size_t rest = text.size() - affix.size();
  if (text.view().substr(suffix ? rest : 0, affix.size()) != affix.view()) return self;
  return rt.string(suffix ? text.slice(0, rest) : text.slice(affix.size(), text.size()));
}

enum class Side { kLeft, kRight, kCenter };

template <Side side>
Value justify(Runtime& rt, const Value& self, const Args& args) {
  Params p(rt, "ljust", args, {"width", "fillchar"}, 1);
  const Int width = p.integer(0, 0);
  const Text fill = p.text(1, " ");
  if (!p.ok()) return Value();
  if (count_code_points(fill.view()) != 1)
    return rt.fail("the fill character must be exactly one character long");
  if (!rt.room(static_cast<uint64_t>(std::clamp<Int>(width, 0, Int{1} << 40)) * fill.size()))
    return Value();
  if (side == Side::kCenter) return rt.string(text_center(self.text(), width, fill.view()));
  Text out;
  if (side == Side::kLeft) out = self.text();
  for (Int i = static_cast<Int>(count_code_points(self.text().view())); i < width; ++i)
    out.append(fill);
  if (side == Side::kRight) out.append(self.text());
  return rt.string(std::move(out));
}

Value zfill(Runtime& rt, const Value& self, const Args& args) {
  Params p(rt, "zfill", args, {"width"}, 1);
  const Int width = p.integer(0, 0);
  if (!p.ok() || !rt.room(static_cast<uint64_t>(std::clamp<Int>(width, 0, Int{1} << 40))))
    return Value();
  const Text& text = self.text();
  const size_t sign = !text.empty() && (text.view()[0] == '-' || text.view()[0] == '+') ? 1 : 0;
  Text out = text.slice(0, sign);
  for (Int i = static_cast<Int>(count_code_points(text.view())); i < width; ++i)
    out.append("0", false);
  out.append(text.slice(sign, text.size()));
  return rt.string(std::move(out));
}

bool is_alnum(char32_t c) { return c != '_' && python_is_word(c); }
bool is_ascii(char32_t c) { return c < 0x80; }

// isalpha() and its kin: every character passes, and (unless `empty_passes`) there is one.
template <bool (*test)(char32_t), bool empty_passes = false>
Value all(Runtime& rt, const Value& self, const Args& args) {
  if (!Params(rt, "str method", args, {}).ok()) return Value();
  const std::string_view text = self.text().view();
  if (text.empty()) return Value::boolean(empty_passes);
  for (size_t pos = 0; pos < text.size();) {
    if (!test(next_code_point(text, &pos))) return Value::boolean(false);
  }
  return Value::boolean(true);
}

Value is_lower(Runtime& rt, const Value& self, const Args& args) {
  if (!Params(rt, "islower", args, {}).ok()) return Value();
  return Value::boolean(find_predicate("lower")(rt, self, {}));
}
Value is_upper(Runtime& rt, const Value& self, const Args& args) {
  if (!Params(rt, "isupper", args, {}).ok()) return Value();
  return Value::boolean(find_predicate("upper")(rt, self, {}));
}

Value is_title(Runtime& rt, const Value& self, const Args& args) {
  if (!Params(rt, "istitle", args, {}).ok()) return Value();
  bool cased = false, previous = false;
  const std::string_view text = self.text().view();
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = next_code_point(text, &pos);
    const bool big = python_is_upper(c) || python_is_title(c), small = python_is_lower(c);
    if ((big && previous) || (small && !previous)) return Value::boolean(false);
    previous = big || small;
    cased |= previous;
  }
  return Value::boolean(cased);
}

Value is_identifier(Runtime& rt, const Value& self, const Args& args) {
  if (!Params(rt, "isidentifier", args, {}).ok()) return Value();
  const std::string_view text = self.text().view();
  bool ok = !text.empty();
  for (size_t pos = 0; pos < text.size() && ok;) {
    const bool first = pos == 0;
    const char32_t c = next_code_point(text, &pos);
    ok = first ? c == '_' || python_is_alpha(c) : python_is_word(c);
  }
  return Value::boolean(ok);
}

Value not_supported(Runtime& rt, const Value&, const Args&) {
  return rt.fail("this str method is not supported");
}

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

struct Entry {
  std::string_view name;
  Method method;
};

constexpr Entry kStr[] = {
    {"capitalize", mapped<text_capitalize>},
    {"casefold", not_supported},
    {"center", justify<Side::kCenter>},
    {"count", count},
    {"encode", not_supported},
    {"endswith", starts_or_ends<true>},
    {"expandtabs", not_supported},
    {"find", find<false, Miss::kMinusOne>},
    {"format", format},
    {"index", find<false, Miss::kError>},
    {"isalnum", all<is_alnum>},
    {"isalpha", all<python_is_alpha>},
    {"isascii", all<is_ascii, true>},
    {"isdecimal", all<python_is_decimal>},
    {"isdigit", all<python_is_digit>},
    {"isidentifier", is_identifier},
    {"islower", is_lower},
    {"isnumeric", all<python_is_numeric>},
    {"isprintable", all<python_is_printable, true>},
    {"isspace", all<python_is_space>},
    {"istitle", is_title},
    {"isupper", is_upper},
    {"join", join},
    {"ljust", justify<Side::kLeft>},
    {"lower", mapped<text_lower>},
    {"lstrip", strip<1>},
    {"maketrans", not_supported},
    {"partition", partition<false>},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"replace", replace},
    {"rfind", find<true, Miss::kMinusOne>},
    {"rindex", find<true, Miss::kError>},
    {"rjust", justify<Side::kRight>},
    {"rpartition", partition<true>},
    {"rsplit", split<true>},
    {"rstrip", strip<2>},
    {"split", split<false>},
    {"splitlines", splitlines},
    {"startswith", starts_or_ends<false>},
    {"strip", strip<3>},
    {"swapcase", mapped<swap_case>},
    {"title", mapped<title_case>},
    {"translate", not_supported},
    {"upper", mapped<text_upper>},
    {"zfill", zfill},
};
constexpr Entry kDict[] = {
    {"copy", copy},
    {"get", dict_get},
    {"items", dict_view<ListKind::kDictItems>},
    {"keys", dict_view<ListKind::kDictKeys>},
    {"values", dict_view<ListKind::kDictValues>},
};
constexpr Entry kList[] = {{"copy", copy}, {"count", list_count}, {"index", list_index}};
constexpr Entry kTuple[] = {{"count", list_count}, {"index", list_index}};
constexpr Entry kFloat[] = {{"is_integer", is_integer}};

const Entry* find_method(const Value& self, std::string_view name) {
  const auto in = [&](const auto& table) -> const Entry* {
    const auto at = std::find_if(std::begin(table), std::end(table),
                                 [&](const Entry& e) { return e.name == name; });
    return at == std::end(table) ? nullptr : &*at;
  };
  switch (self.kind()) {
    case Kind::kString:
      return in(kStr);
    case Kind::kDict:
      return in(kDict);
    case Kind::kFloat:
      return in(kFloat);
    case Kind::kList:
      if (self.list().kind == ListKind::kList) return in(kList);
      if (self.list().kind < ListKind::kGenerator || self.list().kind == ListKind::kRange)
        return in(kTuple);
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
  const Entry* entry = find_method(self, name);
  if (!entry)
    return runtime.fail(fmt::format("'{} object' has no method '{}'", type_name(self), name));
  // Reading a long string has a price.
  if (self.is_string() && !runtime.spend(1 + self.text().size() / 256)) return Value();
  return entry->method(runtime, self, args);
}

}  // namespace minim::jinja
