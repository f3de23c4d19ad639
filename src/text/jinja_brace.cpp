// str.format(): fields in braces, each a lookup and a layout that may itself hold fields.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/jinja_layout.h"
#include "text/jinja_runtime.h"

namespace minim::jinja {
namespace {

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

Value Runtime::brace_format(const Text& format, const Args& args) {
  if (!spend(format.size() / 16)) return Value();
  return string(Brace(*this, args).run(format, 0));
}

}  // namespace minim::jinja
