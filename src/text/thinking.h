// How much the model may think before it answers.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace minim {

// The template variable thinking_mode. kUnset leaves the variable undefined; the family's template
// then behaves as adaptive.
enum class ThinkingMode : uint8_t { kUnset, kEnabled, kDisabled, kAdaptive };

// "enabled", "disabled", "adaptive".
std::optional<ThinkingMode> parse_thinking_mode(std::string_view word);
// The inverse; empty for kUnset.
std::string_view thinking_mode_name(ThinkingMode mode);

// The effort words of the APIs: none, minimal -> disabled; low -> adaptive; medium, high, xhigh,
// max -> enabled. Any other word: nullopt.
std::optional<ThinkingMode> mode_of_effort(std::string_view effort);

}  // namespace minim
