// A chat with the demo model, token by token: what a prefix cache needs, from the model's own
// words.
#include <gtest/gtest.h>

#include "apps/generation.h"
#include "apps/model_folder.h"
#include "text/prompt.h"
#include "text/turn_memory.h"

namespace minim {
namespace {

bool begins(const std::vector<TokenId>& tokens, const std::vector<TokenId>& prefix) {
  return tokens.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), tokens.begin());
}

class Replay : public ::testing::TestWithParam<const char*> {
 protected:
  Replay() {
    Result<std::unique_ptr<Runtime>> loaded =
        Runtime::load({.model_dir = MINIM_DEMO_MODEL, .context = 2048}, {});
    EXPECT_TRUE(loaded) << loaded.error().message;
    runtime_ = *std::move(loaded);
  }

  std::vector<TokenId> prompt(const Json& messages, const TurnMemory* memory) {
    ChatTemplate::Options options;
    options.memory = memory;
    const auto segments = chat_.render(
        {{"messages", messages}, {"thinking_mode", GetParam()}, {"add_generation_prompt", true}},
        options);
    EXPECT_TRUE(segments) << segments.error().message;
    return segments ? encode_prompt(tokenizer_, *segments) : std::vector<TokenId>();
  }

  // A model that spells in pieces of two bytes at most, and that in adaptive mode does not say
  // whether it thinks: its replies are not what a tokenizer and a template would make of their
  // text.
  TokenMask clumsy() {
    Result<TokenMask> mask = token_mask(runtime_->config(), &tokenizer_);
    EXPECT_TRUE(mask);
    for (TokenId id = 0; id < tokenizer_.n_ids(); ++id) {
      if (!tokenizer_.is_added(id) && tokenizer_.bytes(id).size() > 2)
        (*mask)[static_cast<size_t>(id)] = 0;
    }
    const MarkerIds markers = MarkerIds::of(tokenizer_);
    if (std::string_view(GetParam()) == "adaptive")
      (*mask)[static_cast<size_t>(*markers.end_think)] =
          (*mask)[static_cast<size_t>(*markers.think)] = 0;
    return *std::move(mask);
  }

  std::unique_ptr<Engine> make_engine() {
    EngineOptions options;
    options.token_mask = clumsy();
    Result<std::unique_ptr<Engine>> engine = Engine::make(*runtime_, std::move(options));
    EXPECT_TRUE(engine) << engine.error().message;
    return *std::move(engine);
  }

  Generation answer(Engine& engine, const std::vector<TokenId>& prompt) {
    const std::vector<int32_t> stops =
        *stop_ids(runtime_->generation(), tokenizer_, MINIM_DEMO_MODEL);
    GenerateRequest request;
    request.prompt = prompt;
    request.sampling.temperature = 0;
    request.stop_ids = stops;
    request.max_tokens = 400;
    ProgressLine progress(false, nullptr);
    InterruptWatch watch;
    Result<Generation> out =
        generate(engine, std::move(request), progress, watch, [](int32_t) { return true; });
    EXPECT_TRUE(out) << out.error().message;
    return out ? *std::move(out) : Generation();
  }

  Tokenizer tokenizer_ = *load_tokenizer(MINIM_DEMO_MODEL);
  ChatTemplate chat_ = *load_chat_template(MINIM_DEMO_MODEL);
  std::unique_ptr<Runtime> runtime_;
};

TEST_P(Replay, NextPromptBeginsWithAllThatTheCacheHolds) {
  TurnMemory memory(10000);
  const std::unique_ptr<Engine> engine = make_engine();
  Json messages = Json::array();
  std::vector<TokenId> before;  // all tokens of the chat so far
  for (const char* question : {"Hello", "What is 12 + 30?", "Thanks!"}) {
    messages.push_back({{"role", "user"}, {"content", question}});
    const std::vector<TokenId> now = prompt(messages, &memory);
    EXPECT_TRUE(begins(now, before)) << question;
    if (std::string_view(GetParam()) == "adaptive") {
      EXPECT_EQ(begins(prompt(messages, nullptr), before), before.empty()) << "text would do";
    }
    const Generation reply = answer(*engine, now);
    ASSERT_EQ(reply.finish, Finish::kStop);
    // The last token of a reply never went through the model.
    EXPECT_EQ(reply.cached_tokens, before.empty() ? 0 : static_cast<int>(before.size()) - 1);

    const std::span<const TokenId> body = std::span(reply.tokens).first(reply.tokens.size() - 1);
    TokenOutputParser parser(tokenizer_, nullptr, *parse_thinking_mode(GetParam()));
    std::vector<OutputEvent> events;
    for (const TokenId token : body) parser.push(token, events);
    parser.finish("stop", events);
    ParsedOutput said;
    for (const OutputEvent& event : events) said.add(event);
    memory.remember(said, turn_tokens(MarkerIds::of(tokenizer_), now, body));

    Json message{{"role", "assistant"}, {"content", said.content.value_or("")}};
    if (said.reasoning) message["reasoning_content"] = *said.reasoning;
    messages.push_back(std::move(message));
    before = now;
    before.insert(before.end(), reply.tokens.begin(), reply.tokens.end());
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, Replay, ::testing::Values("adaptive", "enabled", "disabled"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace minim
