// Templates and data are both untrusted. The input is a template, and behind a NUL byte JSON
// variables.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t nul = input.find('\0');
  const auto chat = minim::ChatTemplate::parse(input.substr(0, nul), "fuzz");
  if (!chat) return 0;
  minim::Json vars = {
      {"messages",
       {{{"role", "user"}, {"content", "<b> \xC3\xA9"}}, {{"role", "tool"}, {"n", 1.5}}}},
      {"x", {1, true, nullptr, "a b"}}};
  if (nul != std::string_view::npos) {
    auto given = minim::parse_json(input.substr(nul + 1), "fuzz");
    if (given && given->is_object()) vars = *given;
  }
  minim::ChatTemplate::Options options;
  options.now.emplace();
  const auto out = chat->render(vars, options);
  if (!out) return 0;
  for (size_t i = 0; i < out->size(); ++i) {
    if ((*out)[i].text.empty() || (i > 0 && (*out)[i].from_template == (*out)[i - 1].from_template))
      __builtin_trap();
  }
  return 0;
}
