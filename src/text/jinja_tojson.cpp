// The filter tojson: json.dumps() with the defaults of transformers, written by hand because every
// byte keeps its origin and because the output has to equal Python's, floats and escapes included.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "text/jinja_filter_table.h"
#include "text/jinja_runtime.h"
#include "text/python_repr.h"

namespace minim::jinja {
namespace {

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

}  // namespace

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

}  // namespace minim::jinja
