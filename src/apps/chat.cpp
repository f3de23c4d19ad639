// The chat of minim run. Its memory is the list of messages; each turn the template renders all of
// it again, and the sequence recomputes only what differs from what its cache holds: nothing of
// the chat so far, since the answers stand there with the tokens that the model wrote.
#include <fmt/format.h>

#include "apps/cache_flags.h"
#include "apps/conversation.h"
#include "apps/line_editor.h"
#include "text/turn_memory.h"

namespace minim {
namespace {

Json first_messages(const Arguments& arguments) {
  Json messages = Json::array();
  if (arguments.given("system")) {
    messages.push_back({{"role", "system"}, {"content", arguments.text("system")}});
  }
  return messages;
}

// The answer as a message, its thinking and calls included. The template wants arguments as an
// object; what is no JSON for us (a number beyond all bounds) goes in as text.
Json answer_message(const ParsedOutput& output) {
  Json message{{"role", "assistant"}, {"content", output.content.value_or("")}};
  if (output.reasoning) message["reasoning_content"] = *output.reasoning;
  Json calls = Json::array();
  for (const ParsedOutput::Call& call : output.calls) {
    if (!call.complete) continue;
    Result<Json> arguments = parse_json(call.arguments, "arguments");
    if (!arguments) arguments = Json{{"_raw", call.arguments}};
    calls.push_back({{"type", "function"},
                     {"function", {{"name", call.name}, {"arguments", *std::move(arguments)}}}});
  }
  if (!calls.empty()) message["tool_calls"] = std::move(calls);
  return message;
}

// Answers the last message and adds the answer; on an error the message is taken back. False: the
// program is to end.
bool turn(const TextSide& text, const Answerer& answerer, Json& messages, TurnMemory& memory,
          const Arguments& arguments) {
  InterruptWatch watch;
  const auto give_up = [&](const Error& error) {
    warn(error.message);
    messages.erase(messages.size() - 1);
    return !watch.ends_program();
  };
  Result<std::vector<TokenId>> prompt = render_prompt(text, messages, &memory);
  if (!prompt) return give_up(prompt.error());
  Result<Answer> result = answer(text, answerer, *prompt, false, arguments.on("quiet"), watch);
  if (!result) return give_up(result.error());
  messages.push_back(answer_message(result->output));
  if (result->generation.finish == Finish::kStop) {
    const std::span<const int32_t> written = result->generation.tokens;
    memory.remember(result->output, turn_tokens(MarkerIds::of(text.tokenizer), *prompt,
                                                written.first(written.size() - 1)));
  }
  if (!arguments.on("quiet")) warn(summary(result->generation, *answerer.runtime));
  return !watch.ends_program();
}

}  // namespace

int chat(const TextSide& text, const Answerer& answerer, const Arguments& arguments) {
  if (!arguments.on("quiet")) {
    warn("a chat: /clear forgets what was said, /exit or Ctrl-D ends, Ctrl-C stops an answer");
  }
  TurnMemory memory(static_cast<size_t>(answerer.runtime->context()));
  Json messages = first_messages(arguments);
  LineEditor editor;
  while (const std::optional<std::string> line = editor.read("> ")) {
    if (*line == "/exit") break;
    if (*line == "/clear") {
      messages = first_messages(arguments);
      continue;
    }
    if (line->find_first_not_of(" \t") == std::string::npos) continue;
    messages.push_back({{"role", "user"}, {"content", *line}});
    if (!turn(text, answerer, messages, memory, arguments)) return interrupted_code();
  }
  warn_of_trouble(*answerer.engine);
  return finish_output();
}

}  // namespace minim
