// Native rendering against the interpreter, which is itself checked against Python.
#include "text/native_template.h"

#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>

#include "support/conversations.h"
#include "support/official_template.h"

namespace minim {
namespace {

using testing::Conversations;
using Way = ChatTemplate::Way;

const std::string kData = std::string(MINIM_TEST_DATA) + "/text/template/";
const std::string kGolden = kData + "chat_template.jinja";
const std::string kDemo = std::string(MINIM_DEMO_MODEL) + "/chat_template.jinja";

ChatTemplate must_load(const std::string& path) {
  Result<ChatTemplate> chat = ChatTemplate::load(path);
  EXPECT_TRUE(chat) << chat.error().message;
  return *chat;
}

Result<std::vector<PromptSegment>> render(const ChatTemplate& chat, const Json& vars, Way way) {
  ChatTemplate::Options options;
  options.way = way;
  return chat.render(vars, options);
}

TEST(NativeTemplate, EveryGoldenConversationIsRenderedNatively) {
  const ChatTemplate chat = must_load(kGolden);
  std::ifstream in(kData + "chat.jsonl");
  size_t native = 0, raised = 0;
  for (std::string line; std::getline(in, line);) {
    const Result<Json> v = parse_json(line, "chat.jsonl");
    ASSERT_TRUE(v);
    const auto segments = render(chat, (*v)["vars"], Way::kNative);
    if (v->contains("error")) {
      // Errors are the interpreter's, so that they name the template's line.
      EXPECT_FALSE(segments);
      const auto error = chat.render((*v)["vars"], {});
      ASSERT_FALSE(error);
      EXPECT_NE(error.error().message.find((*v)["error"].get<std::string>()), std::string::npos);
      ++raised;
      continue;
    }
    ASSERT_TRUE(segments) << (*v)["id"] << ": " << segments.error().message;
    EXPECT_EQ(ChatTemplate::join(*segments), (*v)["text"].get<std::string>()) << (*v)["id"];
    EXPECT_EQ(*segments, *render(chat, (*v)["vars"], Way::kInterpreter)) << (*v)["id"];
    ++native;
  }
  EXPECT_EQ(native, 235u);
  EXPECT_EQ(raised, 7u);
}

// Segments, or a single one that is the error.
std::vector<PromptSegment> outcome(const Result<std::vector<PromptSegment>>& result) {
  if (result) return *result;
  return {{"error: " + result.error().message, false}};
}

// How many of `n` random conversations were rendered natively.
size_t compare(const ChatTemplate& chat, uint64_t seed, double oddness, size_t n) {
  Conversations conversations(seed, oddness);
  size_t native = 0;
  for (size_t i = 0; i < n; ++i) {
    const Json vars = conversations.variables();
    const auto want = render(chat, vars, Way::kInterpreter);
    const auto got = render(chat, vars, Way::kFastest);
    EXPECT_EQ(outcome(want), outcome(got)) << vars;
    const auto segments = render(chat, vars, Way::kNative);
    if (segments) {
      ++native;
      EXPECT_EQ(outcome(want), outcome(segments)) << vars;
    }
    if (::testing::Test::HasFailure()) break;
  }
  return native;
}

class KnownTemplate : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string path = GetParam() == "golden" ? kGolden
                             : GetParam() == "demo" ? kDemo
                                                    : testing::official_template_path();
    if (!std::filesystem::exists(path)) {
      GTEST_SKIP() << "MiniMax-M3's template is not at " << path
                   << "; scripts/fetch_m3_template.sh fetches it";
    }
    chat_ = must_load(path);
    ASSERT_TRUE(chat_->native());
  }
  std::optional<ChatTemplate> chat_;
};

TEST_P(KnownTemplate, OrdinaryConversationsAreNativeAndEqualTheInterpreters) {
  EXPECT_EQ(compare(*chat_, 1, 0, 2000), 2000u);
}

TEST_P(KnownTemplate, OddConversationsEqualTheInterpreters) {
  const size_t native = compare(*chat_, 2, 0.03, 3000) + compare(*chat_, 3, 0.3, 2000);
  EXPECT_GT(native, 1000u);
  EXPECT_LT(native, 5000u);
}

// Processor time, so that a busy machine slows both; the ratio itself is for the benchmark to tell.
TEST_P(KnownTemplate, LongChatIsRenderedTenTimesAsFastAtLeast) {
  const Json vars = testing::long_chat(600);
  ASSERT_EQ(outcome(render(*chat_, vars, Way::kNative)),
            outcome(render(*chat_, vars, Way::kInterpreter)));
  const auto least = [&](Way way) {
    std::clock_t best = std::numeric_limits<std::clock_t>::max();
    for (int i = 0; i < 5; ++i) {
      const std::clock_t start = std::clock();
      EXPECT_TRUE(render(*chat_, vars, way));
      best = std::min(best, std::clock() - start);
    }
    return static_cast<double>(best);
  };
  EXPECT_GT(least(Way::kInterpreter), 10 * least(Way::kNative));
}

INSTANTIATE_TEST_SUITE_P(Templates, KnownTemplate, ::testing::Values("golden", "demo", "official"),
                         [](const auto& param) { return param.param; });

std::string file_text(const std::string& path) {
  const Result<std::string> text = read_file(path);
  EXPECT_TRUE(text);
  return *text;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::optional<NativeTemplate> derive(const std::string& source) {
  const Result<jinja::Body> body = jinja::parse(source, "t");
  EXPECT_TRUE(body);
  return NativeTemplate::derive(NativeTemplate::Variant::kMinimDemo, *body, "t");
}

TEST(NativeTemplate, ProseComesFromTheFile) {
  std::string source = file_text(kGolden);
  source = replaced(source, "Be brief.", "Take your time.");
  source = replaced(source, "a tiny model", "an éléphant");
  source = replaced(source, "Call a tool when", "Never call a tool, even when");
  EXPECT_FALSE(ChatTemplate::parse(source, "t")->native());
  const auto native = derive(source);
  ASSERT_TRUE(native);
  const Result<ChatTemplate> chat = ChatTemplate::parse(source, "t");
  ASSERT_TRUE(chat);
  Conversations conversations(4, 0);
  for (int i = 0; i < 200; ++i) {
    const Json vars = conversations.variables();
    const auto got = native->render(vars, nullptr);
    ASSERT_TRUE(got);
    EXPECT_EQ(*got, *chat->render(vars, {}));
  }
}

TEST(NativeTemplate, AnotherGrammarIsNotRenderedNatively) {
  const std::string source = file_text(kGolden);
  ASSERT_TRUE(derive(source));
  const std::pair<const char*, const char*> changes[] = {
      {"bod ~ 'user\\n'", "bod ~ 'human\\n'"},
      {"'[e~[\\n'", "'[e~['"},
      {"loop.previtem.role != 'tool'", "loop.previtem.role != 'user'"},
      {"]<]image[>[", "]<]picture[>["},
      {"'true' if v else 'false'", "v"},
      {"mode == 'enabled' -%}", "mode == 'adaptive' -%}"},
      {"<response>", "<result>"},
      {"{{- ns.dev -}}", "{{- ns.dev | upper -}}{{- ns.dev -}}"},
      {"not ns.last_ai_tool", "true"},
      {"~ '<tool_call>\\n' -}}\n      {%- for", "~ '<tool_calls>\\n' -}}\n      {%- for"},
      {".lstrip('\\n')", ""},
      {"| tojson -}}", "| tojson(indent=1) -}}"},
  };
  for (const auto& [from, to] : changes) EXPECT_FALSE(derive(replaced(source, from, to))) << from;
}

TEST(NativeTemplate, OnlyKnownBytesAreRecognised) {
  const std::string source = file_text(kGolden);
  EXPECT_TRUE(NativeTemplate::variant_of(source));
  EXPECT_FALSE(NativeTemplate::variant_of(source + "\n"));
  EXPECT_FALSE(NativeTemplate::variant_of(""));
  const auto refused = render(*ChatTemplate::parse("x", "t"), Json::object(), Way::kNative);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "t: the template is the interpreter's");
}

TEST(NativeTemplate, DeepAndIllFormedDataAreTheInterpreters) {
  const ChatTemplate chat = must_load(kGolden);
  const auto with = [](Json content) {
    return Json{{"messages", {{{"role", "user"}, {"content", std::move(content)}}}}};
  };
  Json deep = "x";
  for (int i = 0; i < 100; ++i) deep = Json::array({deep});
  for (const Json& vars :
       {with("\xFF"), with(deep), Json{{"messages", Json::array()}, {"x", "\x80"}}}) {
    EXPECT_FALSE(render(chat, vars, Way::kNative));
    EXPECT_EQ(outcome(render(chat, vars, Way::kFastest)),
              outcome(render(chat, vars, Way::kInterpreter)));
  }
}

}  // namespace
}  // namespace minim
