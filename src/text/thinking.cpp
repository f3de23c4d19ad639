// The words of the template and of the APIs, as tables.
#include "text/thinking.h"

namespace minim {
namespace {

struct Word {
  std::string_view word;
  ThinkingMode mode;
};

constexpr Word kModes[] = {
    {"enabled", ThinkingMode::kEnabled},
    {"disabled", ThinkingMode::kDisabled},
    {"adaptive", ThinkingMode::kAdaptive},
};

constexpr Word kEfforts[] = {
    {"none", ThinkingMode::kDisabled}, {"minimal", ThinkingMode::kDisabled},
    {"low", ThinkingMode::kAdaptive},  {"medium", ThinkingMode::kEnabled},
    {"high", ThinkingMode::kEnabled},  {"xhigh", ThinkingMode::kEnabled},
    {"max", ThinkingMode::kEnabled},
};

template <size_t n>
std::optional<ThinkingMode> find(const Word (&words)[n], std::string_view word) {
  for (const Word& known : words) {
    if (known.word == word) return known.mode;
  }
  return std::nullopt;
}

}  // namespace

std::optional<ThinkingMode> parse_thinking_mode(std::string_view word) {
  return find(kModes, word);
}

std::string_view thinking_mode_name(ThinkingMode mode) {
  for (const Word& known : kModes) {
    if (known.mode == mode) return known.word;
  }
  return {};
}

std::optional<ThinkingMode> mode_of_effort(std::string_view effort) {
  return find(kEfforts, effort);
}

}  // namespace minim
