// Conversations are untrusted: the input is the JSON variables of the demo model's template. Native
// rendering must give what the interpreter gives, or leave it to the interpreter; looking for
// remembered replies must not change that.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/chat_template.h"
#include "text/turn_memory.h"

namespace {

using minim::ChatTemplate;

minim::Result<std::vector<minim::PromptSegment>> render(const minim::Json& vars,
                                                        ChatTemplate::Way way,
                                                        const minim::TurnMemory* memory) {
  static const auto chat = ChatTemplate::load(MINIM_DEMO_MODEL "/chat_template.jinja");
  if (!chat || !chat->native()) __builtin_trap();
  ChatTemplate::Options options;
  options.now.emplace();
  options.way = way;
  options.memory = memory;
  return chat->render(vars, options);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto vars =
      minim::parse_json(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!vars || !vars->is_object()) return 0;
  minim::TurnMemory memory(100);
  minim::ParsedOutput reply;
  reply.content = "remembered";
  reply.finish = "stop";
  memory.remember(reply, {1, 2, 3});
  const auto native = render(*vars, ChatTemplate::Way::kNative, nullptr);
  const auto replayed = render(*vars, ChatTemplate::Way::kNative, &memory);
  if (static_cast<bool>(native) != static_cast<bool>(replayed)) __builtin_trap();
  if (!native) return 0;
  if (ChatTemplate::join(*native) != ChatTemplate::join(*replayed)) __builtin_trap();
  const auto interpreted = render(*vars, ChatTemplate::Way::kInterpreter, nullptr);
  if (interpreted ? *interpreted != *native : interpreted.error().code != minim::Code::kExhausted) {
    __builtin_trap();
  }
  return 0;
}
