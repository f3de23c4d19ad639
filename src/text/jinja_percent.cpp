// "format % arguments", with printf's mini-language as Python reads it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/jinja_layout.h"
#include "text/jinja_runtime.h"

namespace minim::jinja {
namespace {

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

}  // namespace

Value Runtime::percent_format(const Text& format, const Value& arguments) {
  if (!spend(format.size() / 16)) return Value();
  return Percent(*this, format, arguments).run();
}

}  // namespace minim::jinja
