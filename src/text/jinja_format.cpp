// "%" formatting and str.format with Python's mini-languages. Numbers are laid out by one function
// for both; values that a template prints this way are few, so clarity goes before speed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "text/jinja_runtime.h"
#include "text/python_repr.h"

namespace minim::jinja {
namespace {

struct Spec {
  std::string fill = " ";
  char align = 0;  // < > ^ = or 0
  char sign = '-';
  bool alternate = false;
  bool zero = false;
  bool comma = false;
  size_t width = 0;
  std::optional<size_t> precision;
  char type = 0;
};

constexpr size_t kMaxPrecision = 1000;

std::string digits_in_base(Int value, int base, bool upper) {
  std::string out;
  do {
    const int digit = std::abs(static_cast<int>(value % base));
    out += static_cast<char>(digit < 10 ? '0' + digit : (upper ? 'A' : 'a') + digit - 10);
    value /= base;
  } while (value != 0);
  std::reverse(out.begin(), out.end());
  return out;
}

// |value| as Python spells it, without a sign.
std::string real_digits(double value, const Spec& spec) {
  value = std::fabs(value);
  const bool upper = spec.type == 'F' || spec.type == 'E' || spec.type == 'G';
  if (!std::isfinite(value)) {
    const std::string word = std::isnan(value) ? "nan" : "inf";
    return upper ? (std::isnan(value) ? "NAN" : "INF") : word;
  }
  const int precision = static_cast<int>(spec.precision.value_or(6));
  switch (spec.type) {
    case 'e':
      return fmt::format("{:.{}e}", value, precision);
    case 'E':
      return fmt::format("{:.{}E}", value, precision);
    case 'f':
    case 'F':
      return fmt::format("{:.{}f}", value, precision);
    case '%':
      return fmt::format("{:.{}f}%", value * 100, precision);
    case 'g':
      return spec.alternate ? fmt::format("{:#.{}g}", value, std::max(precision, 1))
                            : fmt::format("{:.{}g}", value, std::max(precision, 1));
    case 'G':
      return fmt::format("{:.{}G}", value, std::max(precision, 1));
    default:
      break;
  }
  if (!spec.precision) return python_float_repr(value);
  // No type: like g, but a whole number keeps ".0".
  std::string out = fmt::format("{:.{}g}", value, std::max(precision, 1));
  if (out.find_first_of(".e") == std::string::npos) {
    if (out.size() < static_cast<size_t>(std::max(precision, 1)))
      out += ".0";
    else
      out = fmt::format("{:.{}e}", value, std::max(precision, 1) - 1);
  }
  return out;
}

std::string group_thousands(const std::string& digits) {
  const size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
  std::string out;
  for (size_t i = 0; i < end; ++i) {
    if (i > 0 && (end - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out + digits.substr(end);
}

// Lays out sign, prefix and digits in the width.
std::string lay_out_number(bool negative, std::string prefix, std::string digits,
                           const Spec& spec) {
  if (spec.comma) digits = group_thousands(digits);
  std::string sign = negative ? "-" : spec.sign == '+' ? "+" : spec.sign == ' ' ? " " : "";
  sign += prefix;
  const size_t size = sign.size() + digits.size();
  const size_t pad = spec.width > size ? spec.width - size : 0;
  const auto fill = [&](size_t n) {
    std::string out;
    for (size_t i = 0; i < n; ++i) out += spec.fill;
    return out;
  };
  switch (spec.align) {
    case '<':
      return sign + digits + fill(pad);
    case '^':
      return fill(pad / 2) + sign + digits + fill(pad - pad / 2);
    case '=':
      return sign + fill(pad) + digits;
    default:
      return fill(pad) + sign + digits;
  }
}

Text lay_out_text(Text text, const Spec& spec, char default_align) {
  if (spec.precision) text = text.slice(0, byte_offset(text.view(), *spec.precision));
  const size_t size = count_code_points(text.view());
  const size_t pad = spec.width > size ? spec.width - size : 0;
  const char align = spec.align ? spec.align : default_align;
  const size_t left = align == '<' ? 0 : align == '^' ? pad / 2 : pad;
  Text out;
  for (size_t i = 0; i < left; ++i) out.append(spec.fill, false);
  out.append(text);
  for (size_t i = left; i < pad; ++i) out.append(spec.fill, false);
  return out;
}

bool is_integer_type(char type) {
  return type == 'd' || type == 'x' || type == 'X' || type == 'o' || type == 'b';
}

std::string format_int(Int value, const Spec& spec) {
  const int base = spec.type == 'x' || spec.type == 'X' ? 16
                   : spec.type == 'o'                   ? 8
                   : spec.type == 'b'                   ? 2
                                                        : 10;
  std::string prefix;
  if (spec.alternate && base != 10) prefix = std::string("0") + spec.type;
  std::string digits = digits_in_base(value, base, spec.type == 'X');
  return lay_out_number(value < 0, prefix, digits, spec);
}

// --- % formatting ---

class Percent {
 public:
  Percent(Runtime& rt, const Text& format, const Value& arguments)
      : rt_(rt), format_(format), arguments_(arguments) {
    tuple_ = arguments.is(Kind::kList) && arguments.list().kind == ListKind::kTuple;
  }

  Value run() {
    const std::string_view text = format_.view();
    while (pos_ < text.size() && !rt_.failed()) {
      const size_t percent = std::min(text.find('%', pos_), text.size());
      out_.append(format_, pos_, percent);
      pos_ = percent + 1;
      if (percent < text.size()) directive();
      if (out_.size() > kMaxStringBytes && !rt_.room(out_.size())) return Value();
    }
    const bool all_used = !tuple_ || next_ == arguments_.list().items.size();
    // What can be indexed counts as a mapping, which may stay unused.
    const bool indexable =
        arguments_.is(Kind::kDict) || arguments_.is(Kind::kUndefined) ||
        (arguments_.is(Kind::kList) &&
         (arguments_.list().kind == ListKind::kList || arguments_.list().kind == ListKind::kRange));
    const bool single_unused = !tuple_ && next_ == 0 && !named_ && !indexable;
    if (!all_used || single_unused)
      return rt_.fail("not all arguments converted during string formatting");
    return rt_.string(std::move(out_));
  }

 private:
  char take() { return pos_ < format_.size() ? format_.view()[pos_++] : '\0'; }
  char peek() const { return pos_ < format_.size() ? format_.view()[pos_] : '\0'; }

  const Value* argument() {
    if (tuple_) {
      if (next_ < arguments_.list().items.size()) return &arguments_.list().items[next_++];
    } else if (next_++ == 0) {
      return &arguments_;
    }
    rt_.fail("not enough arguments for format string");
    return nullptr;
  }

  bool number(size_t* out) {
    if (peek() == '*') {
      take();
      const Value* value = argument();
      if (!value) return false;
      if (!value->is_integral()) return rt_.fail("* wants int"), false;
      *out = static_cast<size_t>(std::clamp<Int>(value->as_int(), 0, Int{1} << 40));
      return true;
    }
    size_t value = 0;
    while (peek() >= '0' && peek() <= '9')
      value = std::min(value * 10 + static_cast<size_t>(take() - '0'), size_t{1} << 40);
    *out = value;
    return true;
  }

  void directive() {
    Spec spec;
    const Value* value = nullptr;
    if (peek() == '(') {
      const size_t end = format_.view().find(')', pos_);
      if (end == std::string_view::npos) return void(rt_.fail("incomplete format key"));
      const std::string_view key = format_.view().substr(pos_ + 1, end - pos_ - 1);
      pos_ = end + 1;
      if (!arguments_.is(Kind::kDict)) return void(rt_.fail("format requires a mapping"));
      const size_t at = arguments_.dict().find(key);
      if (at == Dict::npos)
        return void(rt_.fail(fmt::format("the format names the missing key '{}'", key)));
      value = &arguments_.dict().items[at].second;
      named_ = true;
    }
    for (;; take()) {
      const char c = peek();
      if (c == '-')
        spec.align = '<';
      else if (c == '0')
        spec.zero = true;
      else if (c == '+')
        spec.sign = '+';
      else if (c == ' ')
        spec.sign = spec.sign == '+' ? '+' : ' ';
      else if (c == '#')
        spec.alternate = true;
      else
        break;
    }
    if (!number(&spec.width)) return;
    if (peek() == '.') {
      take();
      size_t precision = 0;
      if (!number(&precision)) return;
      spec.precision = precision;
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') take();
    spec.type = take();
    if (spec.type == '%') return out_.append("%", format_.from_template_at(pos_ - 1));
    if (spec.type == '\0') return void(rt_.fail("incomplete format"));
    if (!value && !(value = argument())) return;
    convert(*value, spec);
  }

  void convert(const Value& value, Spec& spec) {
    const bool conversion =
        spec.type == 's' || spec.type == 'r' || spec.type == 'a' || spec.type == 'c';
    if (spec.width > kMaxStringBytes ||
        (!conversion && spec.precision.value_or(0) > kMaxPrecision)) {
      return void(rt_.fail("a format width or precision is too large"));
    }
    if (spec.zero && spec.align != '<' && !conversion) {
      spec.fill = '0';
      spec.align = '=';
    }
    switch (spec.type) {
      case 's':
        return out_.append(lay_out_text(rt_.str(value), spec, '>'));
      case 'r':
        return out_.append(lay_out_text(rt_.repr(value), spec, '>'));
      case 'c':
        return character(value, spec);
      case 'i':
      case 'u':
        spec.type = 'd';
        [[fallthrough]];
      case 'd':
      case 'x':
      case 'X':
      case 'o':
        return integer(value, spec);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        if (value.is(Kind::kUndefined)) return void(rt_.fail_undefined(value));
        if (!value.is_number())
          return void(rt_.fail(fmt::format("must be real number, not {}", type_name(value))));
        return out_.append(lay_out_number(std::signbit(value.as_real()), "",
                                          real_digits(value.as_real(), spec), spec),
                           false);
      default:
        rt_.fail(fmt::format("unsupported format character in '%{}'", printable(spec.type)));
    }
  }

  static std::string printable(char c) { return c >= ' ' && c < 127 ? std::string(1, c) : "?"; }

  void character(const Value& value, const Spec& spec) {
    if (value.is_string() && count_code_points(value.text().view()) == 1)
      return out_.append(lay_out_text(value.text(), spec, '>'));
    const Int c = value.is_integral() ? value.as_int() : -1;
    if (c < 0 || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
      return void(rt_.fail("%c requires int or char"));
    std::string text;
    append_utf8(text, static_cast<char32_t>(c));
    out_.append(lay_out_text(Text(text, false), spec, '>'));
  }

  void integer(const Value& value, const Spec& spec) {
    if (value.is(Kind::kUndefined)) return void(rt_.fail_undefined(value));
    const bool real = value.is(Kind::kFloat) && spec.type == 'd';
    if (real && !(std::fabs(value.as_real()) < 1e38))
      return void(rt_.fail("cannot convert float to integer"));
    if (!value.is_integral() && !real) {
      return void(rt_.fail(fmt::format("%{} format: a real number is required, not {}", spec.type,
                                       type_name(value))));
    }
    const Int n = real ? static_cast<Int>(value.as_real()) : value.as_int();
    Spec plain = spec;
    std::string digits = digits_in_base(n,
                                        spec.type == 'd'   ? 10
                                        : spec.type == 'o' ? 8
                                                           : 16,
                                        spec.type == 'X');
    if (spec.precision && digits.size() < *spec.precision)
      digits.insert(0, *spec.precision - digits.size(), '0');
    out_.append(lay_out_number(
                    n < 0, spec.alternate && spec.type != 'd' ? std::string("0") + spec.type : "",
                    digits, plain),
                false);
  }

  Runtime& rt_;
  const Text& format_;
  const Value& arguments_;
  bool tuple_ = false;
  bool named_ = false;
  size_t next_ = 0;
  size_t pos_ = 0;
  Text out_;
};

// --- str.format ---

class Brace {
 public:
  Brace(Runtime& rt, const Args& args) : rt_(rt), args_(args) {}

  Text run(const Text& format, int nesting) {
    Text out;
    const std::string_view text = format.view();
    for (size_t pos = 0; pos < text.size() && !rt_.failed();) {
      const char c = text[pos];
      if (c != '{' && c != '}') {
        const size_t stop = std::min(text.find_first_of("{}", pos), text.size());
        out.append(format, pos, stop);
        pos = stop;
      } else if (pos + 1 < text.size() && text[pos + 1] == c) {
        out.append(format, pos, pos + 1);
        pos += 2;
      } else if (c == '}') {
        rt_.fail("single '}' encountered in format string");
      } else {
        pos = field(format, pos + 1, nesting, &out);
      }
      if (out.size() > kMaxStringBytes && !rt_.room(out.size())) break;
    }
    return out;
  }

 private:
  // Replaces the field that begins at `pos`; returns the place behind its "}".
  size_t field(const Text& format, size_t pos, int nesting, Text* out) {
    const std::string_view text = format.view();
    size_t end = pos;
    for (int open = 1; end < text.size(); ++end) {
      open += text[end] == '{' ? 1 : text[end] == '}' ? -1 : 0;
      if (open == 0) break;
    }
    if (end >= text.size()) return rt_.fail("expected '}' before end of string"), end;
    std::string_view body = text.substr(pos, end - pos);
    const size_t name_end = std::min(body.find_first_of("!:"), body.size());
    const Value value = lookup(body.substr(0, name_end));
    char conversion = 0;
    size_t spec_at = pos + name_end;
    if (name_end < body.size() && body[name_end] == '!') {
      if (name_end + 1 < body.size()) conversion = body[name_end + 1];
      spec_at += 2;
      if (spec_at < end && text[spec_at] != ':')
        return rt_.fail("expected ':' after conversion specifier"), end;
    }
    Text spec = spec_at < end ? format.slice(spec_at + 1, end) : Text();
    if (spec.view().find('{') != std::string_view::npos) {
      if (nesting > 0) return rt_.fail("Max string recursion exceeded"), end;
      spec = run(spec, nesting + 1);
    }
    if (!rt_.failed()) convert(value, conversion, spec.view(), out);
    return end + 1;
  }

  Value lookup(std::string_view name) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    const std::string_view first = name.substr(0, first_end);
    Value value;
    const bool numeric =
        !first.empty() && first.find_first_not_of("0123456789") == std::string_view::npos;
    if (first.empty() || numeric) {
      size_t index = next_++;
      if (numeric) {
        index = 0;
        for (const char c : first)
          index = std::min<size_t>(index * 10 + static_cast<size_t>(c - '0'), 1000000);
      }
      if (index >= args_.positional.size())
        return rt_.fail("Replacement index out of range for positional args tuple");
      value = args_.positional[index];
    } else if (const Value* named = args_.find(first)) {
      value = *named;
    } else {
      return rt_.fail(fmt::format("the format names the missing argument '{}'", first));
    }
    for (size_t pos = first_end; pos < name.size() && !rt_.failed();) {
      const bool dot = name[pos] == '.';
      const size_t end =
          std::min(dot ? name.find_first_of(".[", pos + 1) : name.find(']', pos), name.size());
      const std::string part(name.substr(pos + 1, end - pos - 1));
      const bool index = !dot && !part.empty() && part.size() < 10 &&
                         part.find_first_not_of("0123456789") == std::string::npos;
      value = dot ? rt_.attribute(value, part)
                  : rt_.item(value, index ? Value::integer(std::stoi(part)) : Value::string(part));
      pos = dot ? end : end + 1;
    }
    return value;
  }

  bool parse_spec(std::string_view text, Spec* spec) {
    size_t pos = 0;
    const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
    if (!text.empty()) {
      size_t after = 0;
      next_code_point(text, &after);
      if (after < text.size() && is_align(text[after])) {
        spec->fill = text.substr(0, after);
        spec->align = text[after];
        pos = after + 1;
      } else if (is_align(text[0])) {
        spec->align = text[0];
        pos = 1;
      }
    }
    const auto peek = [&] { return pos < text.size() ? text[pos] : '\0'; };
    const auto number = [&] {
      size_t n = 0;
      while (peek() >= '0' && peek() <= '9')
        n = std::min(n * 10 + static_cast<size_t>(text[pos++] - '0'), size_t{1} << 40);
      return n;
    };
    if (peek() == '+' || peek() == '-' || peek() == ' ') spec->sign = text[pos++];
    if (peek() == '#') spec->alternate = ++pos;
    if (peek() == '0') {
      ++pos;
      if (!spec->align) {
        spec->fill = '0';
        spec->align = '=';
      }
    }
    spec->width = number();
    if (peek() == ',') spec->comma = ++pos;
    if (peek() == '.') {
      ++pos;
      spec->precision = number();
    }
    if (pos < text.size()) spec->type = text[pos++];
    return pos == text.size() && spec->width <= kMaxStringBytes;
  }

  void convert(const Value& value, char conversion, std::string_view spec_text, Text* out) {
    Spec spec;
    if (!parse_spec(spec_text, &spec)) return void(rt_.fail("invalid format specifier"));
    const bool number = value.is_number() && conversion == 0;
    if (number && value.is(Kind::kBool) && spec_text.empty()) return out->append(rt_.str(value));
    if (number && value.is_integral() && (spec.type == 0 || is_integer_type(spec.type))) {
      if (spec.type == 0) spec.type = 'd';
      return out->append(format_int(value.as_int(), spec), false);
    }
    if (number) {
      if (spec.precision.value_or(0) > kMaxPrecision)
        return void(rt_.fail("a format precision is too large"));
      if (std::string_view("eEfFgG%").find(spec.type) == std::string_view::npos && spec.type != 0) {
        return void(rt_.fail("unknown format code for a number"));
      }
      return out->append(lay_out_number(std::signbit(value.as_real()), "",
                                        real_digits(value.as_real(), spec), spec),
                         false);
    }
    const bool text = value.is_string() || conversion != 0;
    if (!text && !spec_text.empty())
      return void(rt_.fail(
          fmt::format("unsupported format string passed to {}.__format__", type_name(value))));
    if ((spec.type != 0 && spec.type != 's') || spec.align == '=')
      return void(rt_.fail("unknown format code for a string"));
    out->append(lay_out_text(conversion == 'r' ? rt_.repr(value) : rt_.str(value), spec, '<'));
  }

  Runtime& rt_;
  const Args& args_;
  size_t next_ = 0;
};

}  // namespace

Value Runtime::percent_format(const Text& format, const Value& arguments) {
  if (!spend(format.size() / 16)) return Value();
  return Percent(*this, format, arguments).run();
}

Value Runtime::brace_format(const Text& format, const Args& args) {
  if (!spend(format.size() / 16)) return Value();
  return string(Brace(*this, args).run(format, 0));
}

}  // namespace minim::jinja
