// What the demo model can do, through the program: the prompts of tests/golden/demo, all greedy.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "program.h"

namespace minim::testing {
namespace {

const std::string kDemo = MINIM_DEMO_MODEL;

std::string trimmed(std::string text) {
  const size_t first = text.find_first_not_of(" \n");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \n") - first + 1);
}

// A raw reply begins with its thinking, marker included.
std::string behind_thinking(const std::string& text) {
  const std::string closer = "</mm:think>";
  const size_t end = text.rfind(closer);
  return end == std::string::npos ? text : text.substr(end + closer.size());
}

// Conversations with tools go through minim template and minim run --raw.
Json answer(const Json& sample) {
  std::vector<std::string> words = {"run", "--model", kDemo, "--json", "--quiet", "--greedy"};
  std::string input;
  if (sample.contains("prompt")) {
    words.insert(words.end(), {"--thinking", sample["mode"].get<std::string>()});
    input = sample["prompt"].get<std::string>();
  } else {
    const Json line{{"messages", sample["messages"]},
                    {"tools", sample["tools"]},
                    {"chat_template_kwargs", {{"thinking_mode", sample["mode"]}}}};
    const Outcome rendered =
        run_minim({"template", "--model", kDemo}, {.input = dump_json(line) + "\n"});
    EXPECT_EQ(rendered.code, 0) << rendered.err;
    input = rendered.lines().at(0)["text"].get<std::string>();
    words.push_back("--raw");
  }
  const Outcome outcome = run_minim(words, {.input = input});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<Json> lines = outcome.lines();
  return lines.empty() ? Json::object() : lines[0];
}

std::vector<Json> samples(const std::string& skill) {
  Outcome file;
  file.out = slurp(std::string(MINIM_TEST_DATA) + "/demo/skills.jsonl");
  std::vector<Json> out;
  for (Json& line : file.lines()) {
    if (line["skill"] == skill) out.push_back(std::move(line));
  }
  return out;
}

struct Skill {
  const char* name;
  size_t n, at_least;
};

// At least what the demo's table of accuracies promises, less about one in ten.
class DemoSkill : public ::testing::TestWithParam<Skill> {};

TEST_P(DemoSkill, IsAnsweredAsOftenAsItsRecipeSays) {
  const std::vector<Json> all = samples(GetParam().name);
  ASSERT_EQ(all.size(), GetParam().n);
  size_t right = 0;
  std::string wrong;
  for (const Json& sample : all) {
    const std::string text = trimmed(behind_thinking(answer(sample).value("text", "")));
    if (text == trimmed(sample["expect"].get<std::string>())) {
      ++right;
    } else {
      wrong += "\nwanted " + dump_json(sample["expect"]) + " got " + dump_json(text);
    }
  }
  EXPECT_GE(right, GetParam().at_least) << wrong;
}

INSTANTIATE_TEST_SUITE_P(Demo, DemoSkill,
                         ::testing::Values(Skill{"greeting", 10, 10}, Skill{"facts", 10, 10},
                                           Skill{"facts, new phrasings", 10, 9},
                                           Skill{"addition", 10, 8}, Skill{"subtraction", 10, 8},
                                           Skill{"reverse", 10, 8}, Skill{"upper case", 10, 8},
                                           Skill{"count letters", 10, 8}, Skill{"json", 10, 8},
                                           Skill{"refuse", 10, 9}, Skill{"needle, short", 10, 9},
                                           Skill{"needle, beyond the budget", 10, 9},
                                           Skill{"needle, far", 4, 3}, Skill{"tool call", 10, 9},
                                           Skill{"answer from tool result", 10, 8}),
                         [](const ::testing::TestParamInfo<Skill>& tested) {
                           std::string name;
                           for (const char* c = tested.param.name; *c != '\0'; ++c) {
                             if (std::isalnum(static_cast<unsigned char>(*c))) name += *c;
                           }
                           return name;
                         });

TEST(Demo, ThinksInColumnsBeforeItAdds) {
  const Json sum = answer({{"prompt", "What is 548 + 53?"}, {"mode", "enabled"}});
  EXPECT_EQ(sum["text"], "548 + 53 = 601");
  EXPECT_NE(sum["reasoning"].get<std::string>().find("8+3+0=1 1"), std::string::npos);
}

TEST(Demo, FindsANeedleThatSelectionMustReachFor) {
  // Four blocks of 128 tokens are read, the own one among them; the text is far longer, so the
  // answer is right only if the indexer picks the block with the code.
  std::string text = "The code of tiger is 4821.";
  for (int i = 0; i < 100; ++i) {
    text += i % 2 == 0 ? " The old road leads to the sea." : " It was a quiet morning.";
  }
  const Json found =
      answer({{"prompt", text + "\nWhat is the code of tiger?"}, {"mode", "adaptive"}});
  EXPECT_GT(found["usage"]["prompt_tokens"], 700);
  EXPECT_EQ(found["text"], "The code of tiger is 4821.");
}

TEST(Demo, RawRepliesKeepTheModelsOwnMarkup) {
  const Json sample = samples("tool call").at(0);
  const Json call = answer(sample);
  EXPECT_EQ(trimmed(call["text"].get<std::string>()),
            "<mm:think>Call get_weather.</mm:think>" + sample["expect"].get<std::string>());
  EXPECT_TRUE(call["reasoning"].is_null());
  EXPECT_EQ(call["tool_calls"], Json::array());
  EXPECT_EQ(call["finish_reason"], "stop");
}

TEST(Demo, CallsTheToolsThatItIsOffered) {
  const Json sample = samples("tool call").at(0);
  const TempFolder folder;
  write_file(folder / "tools.json", dump_json(sample["tools"]));
  const std::vector<std::string> words = {
      "run", "--model", kDemo, "--quiet", "--greedy", "--tools", folder / "tools.json"};
  const RunOptions options{.input = sample["messages"][0]["content"].get<std::string>()};
  std::vector<std::string> json_words = words;
  json_words.push_back("--json");
  const Outcome outcome = run_minim(json_words, options);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json reply = outcome.lines().at(0);
  const std::string arguments = "{\"city\": \"Delhi\"}";
  EXPECT_EQ(reply["tool_calls"],
            Json::array({{{"name", "get_weather"}, {"arguments", arguments}, {"complete", true}}}));
  EXPECT_EQ(reply["finish_reason"], "tool_calls");
  EXPECT_EQ(reply["text"], "");
  EXPECT_EQ(run_minim(words, options).out, "→ get_weather " + arguments + "\n");

  // Bare functions mean the same.
  Json bare = Json::array();
  for (const Json& tool : sample["tools"]) bare.push_back(tool["function"]);
  write_file(folder / "tools.json", dump_json(bare));
  EXPECT_EQ(run_minim(json_words, options).lines().at(0)["tokens"], reply["tokens"]);
}

TEST(Demo, ACallThatIsCutShortSaysSo) {
  const Json sample = samples("tool call").at(0);
  const TempFolder folder;
  write_file(folder / "tools.json", dump_json(sample["tools"]));
  const std::vector<std::string> words = {
      "run", "--model", kDemo, "--quiet", "--greedy", "--tools", folder / "tools.json"};
  const RunOptions options{.input = sample["messages"][0]["content"].get<std::string>()};
  std::vector<std::string> json_words = words;
  json_words.push_back("--json");
  const size_t n = run_minim(json_words, options).lines().at(0)["tokens"].size();
  bool seen = false;
  for (size_t i = 1; i < n && !seen; ++i) {
    std::vector<std::string> cut = json_words;
    cut.insert(cut.end(), {"--max-tokens", std::to_string(i)});
    const Json reply = run_minim(cut, options).lines().at(0);
    EXPECT_EQ(reply["finish_reason"], "length");
    if (reply["tool_calls"].empty()) continue;
    seen = reply["tool_calls"][0]["complete"] == false;
    cut = words;
    cut.insert(cut.end(), {"--max-tokens", std::to_string(i)});
    const std::string out = run_minim(cut, options).out;
    EXPECT_EQ(out.rfind(" (cut short)\n"), out.size() - 13) << out;
  }
  EXPECT_TRUE(seen);
}

TEST(Demo, BadToolFilesAreNamed) {
  const TempFolder folder;
  const auto refused = [&](const std::vector<std::string>& words) {
    expect_refusal(run_minim({"run", "--model", kDemo, "--tools", folder / "tools.json", "Hi"}), 1,
                   words);
  };
  refused({"cannot read", "tools.json"});
  write_file(folder / "tools.json", "[{}");
  refused({"tools.json", "JSON"});
  write_file(folder / "tools.json", "[{\"type\": \"function\", \"function\": {}}]");
  refused({"tools.json", "tools[0].function.name"});
}

}  // namespace
}  // namespace minim::testing
