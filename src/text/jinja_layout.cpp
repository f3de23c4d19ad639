// Numbers are laid out by one function for "%" and for str.format; values that a template prints
// this way are few, so clarity goes before speed.
#include "text/jinja_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/python_repr.h"

namespace minim::jinja {
namespace {

std::string group_thousands(const std::string& digits) {
  const size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
  std::string out;
  for (size_t i = 0; i < end; ++i) {
    if (i > 0 && (end - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out + digits.substr(end);
}

}  // namespace

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

}  // namespace minim::jinja
