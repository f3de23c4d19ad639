// Methods of str that change or ask about its characters: case, stripping, filling up, isalpha()
// and its kin. All work by code point and keep each character's origin.
#include "text/jinja_method_table.h"
#include "text/python_chars.h"

namespace minim::jinja {
namespace {

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

constexpr NamedMethod kMethods[] = {
    {"capitalize", mapped<text_capitalize>},
    {"casefold", not_supported},
    {"center", justify<Side::kCenter>},
    {"encode", not_supported},
    {"expandtabs", not_supported},
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
    {"ljust", justify<Side::kLeft>},
    {"lower", mapped<text_lower>},
    {"lstrip", strip<1>},
    {"maketrans", not_supported},
    {"rjust", justify<Side::kRight>},
    {"rstrip", strip<2>},
    {"strip", strip<3>},
    {"swapcase", mapped<swap_case>},
    {"title", mapped<title_case>},
    {"translate", not_supported},
    {"upper", mapped<text_upper>},
    {"zfill", zfill},
};

}  // namespace

Method find_letters_method(std::string_view name) { return find_in(kMethods, name); }

}  // namespace minim::jinja
