// What Python's two languages of formatting share: the parts of a conversion, and how numbers and
// text are laid out by them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "text/jinja_value.h"

namespace minim::jinja {

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

// |value| as Python spells it by `spec.type` and precision, without a sign.
std::string real_digits(double value, const Spec& spec);

// Sign, prefix and digits in the width.
std::string lay_out_number(bool negative, std::string prefix, std::string digits, const Spec& spec);

// Text cut to the precision, in the width.
Text lay_out_text(Text text, const Spec& spec, char default_align);

}  // namespace minim::jinja
