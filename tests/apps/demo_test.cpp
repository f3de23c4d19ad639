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
    const std::string text = trimmed(answer(sample).value("text", ""));
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

TEST(Demo, WritesAToolCallInTheModelsOwnMarkup) {
  const Json sample = samples("tool call").at(0);
  const Json call = answer(sample);
  EXPECT_EQ(trimmed(call["text"].get<std::string>()), sample["expect"]);
  EXPECT_EQ(call["tool_calls"], Json::array());
  EXPECT_EQ(call["finish_reason"], "stop");
}

}  // namespace
}  // namespace minim::testing
