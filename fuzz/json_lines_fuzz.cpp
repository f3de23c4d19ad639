// Arbitrary bytes as JSON Lines input, read as every command reads it, and as the value of
// --tokens. Whatever is wrong must be told in one line.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>

#include "apps/json_lines.h"
#include "base/result.h"

namespace {

constexpr int kIds = 1000;

template <typename T>
void check(const minim::Result<T>& result) {
  if (!result && result.error().message.find('\n') != std::string::npos) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  minim::JsonLines lines = minim::JsonLines::of(std::make_unique<std::istringstream>(text), "fuzz");
  for (;;) {
    const auto line = lines.next();
    check(line);
    if (!line || !*line) break;
    check(minim::check_keys(**line, {"text", "tokens", "stream"}));
    check(minim::string_member(**line, "text"));
    check(minim::bool_member(**line, "stream", false));
    const auto tokens = minim::tokens_member(**line, "tokens", kIds, false);
    check(tokens);
    if (!tokens) continue;
    for (const int32_t token : *tokens) {
      if (token < 0 || token >= kIds) std::abort();
    }
  }
  check(minim::parse_token_list(text, kIds));
  return 0;
}
