// Methods of str that look for parts of it, cut it up or put strings together. A search pays for
// its worst case before it begins.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "text/jinja_method_table.h"
#include "text/python_chars.h"

namespace minim::jinja {
namespace {

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

constexpr NamedMethod kMethods[] = {
    {"count", count},
    {"endswith", starts_or_ends<true>},
    {"find", find<false, Miss::kMinusOne>},
    {"format", format},
    {"index", find<false, Miss::kError>},
    {"join", join},
    {"partition", partition<false>},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"replace", replace},
    {"rfind", find<true, Miss::kMinusOne>},
    {"rindex", find<true, Miss::kError>},
    {"rpartition", partition<true>},
    {"rsplit", split<true>},
    {"split", split<false>},
    {"splitlines", splitlines},
    {"startswith", starts_or_ends<false>},
};

}  // namespace

Method find_search_method(std::string_view name) { return find_in(kMethods, name); }

}  // namespace minim::jinja
