#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "program.h"
#include "terminal.h"

namespace minim::testing {
namespace {

Outcome run_demo(std::vector<std::string> words, const RunOptions& options = {}) {
  words.insert(words.begin(), {"run", "--model", MINIM_DEMO_MODEL});
  return run_minim(words, options);
}

constexpr const char* kGreeting =
    "Hello! I am minim's demo model. Ask me about minim, a sum, or a text.";

TEST(Run, ThePromptComesFromAnArgumentAFileOrAPipe) {
  const TempFolder folder;
  write_file(folder / "prompt", "Hello\n");
  const std::string wanted = std::string(kGreeting) + "\n";
  EXPECT_EQ(run_demo({"--greedy", "Hello"}).out, wanted);
  EXPECT_EQ(run_demo({"--greedy", "--file", folder / "prompt"}).out, wanted);
  EXPECT_EQ(run_demo({"--greedy", "-"}, {.input = "Hello\n"}).out, wanted);
  EXPECT_EQ(run_demo({"--greedy"}, {.input = "Hello"}).out, wanted);
  expect_refusal(run_demo({""}), 1, {"empty"});
  expect_refusal(run_demo({"-"}, {.input = "\n"}), 1, {"empty"});
  expect_refusal(run_demo({"--file", folder / "none"}), 1, {"none"});
}

TEST(Run, OneSummaryLineGoesToStderrUnlessQuiet) {
  const Outcome loud = run_demo({"--greedy", "--threads", "1", "Hello"});
  EXPECT_EQ(loud.code, 0);
  EXPECT_EQ(std::count(loud.err.begin(), loud.err.end(), '\n'), 1);
  for (const char* word : {"prompt tokens", "generated", "tok/s", "MiB", "1 thread"}) {
    EXPECT_NE(loud.err.find(word), std::string::npos) << loud.err;
  }
  EXPECT_EQ(loud.err.find('\x1b'), std::string::npos);
  EXPECT_EQ(loud.out.find('\x1b'), std::string::npos);
  EXPECT_EQ(run_demo({"--greedy", "--quiet", "Hello"}).err, "");
}

TEST(Run, JsonIsOneObjectOfTheInterface) {
  const Outcome outcome =
      run_demo({"--json", "--greedy", "--quiet", "--thinking", "enabled", "What is 12 + 30?"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<Json> lines = outcome.lines();
  ASSERT_EQ(lines.size(), 1u);
  const Json& answer = lines[0];
  EXPECT_EQ(answer["text"], "12 + 30 = 42");
  EXPECT_NE(answer["reasoning"].get<std::string>().find("012+030"), std::string::npos);
  EXPECT_EQ(answer["tool_calls"], Json::array());
  EXPECT_EQ(answer["finish_reason"], "stop");
  EXPECT_EQ(answer["tokens"].back(), 1300);
  EXPECT_EQ(answer["usage"]["completion_tokens"], answer["tokens"].size());
  EXPECT_GT(answer["usage"]["prompt_tokens"], 20);
  EXPECT_GT(answer["timings"]["decode_tok_per_s"], 0);
  const Outcome plain = run_demo({"--json", "--greedy", "--thinking", "disabled", "Hello"});
  EXPECT_TRUE(plain.lines()[0]["reasoning"].is_null());
}

TEST(Run, MaxTokensAndTheEndOfTheContextAreLength) {
  const Json three = run_demo({"--json", "--greedy", "--max-tokens", "3", "Hello"}).lines()[0];
  EXPECT_EQ(three["tokens"].size(), 3u);
  EXPECT_EQ(three["finish_reason"], "length");
  const int prompt = three["usage"]["prompt_tokens"].get<int>();
  const Json full =
      run_demo({"--json", "--greedy", "--context", std::to_string(prompt + 4), "Hello"}).lines()[0];
  EXPECT_EQ(full["finish_reason"], "length");
  EXPECT_EQ(full["tokens"].size(), 5u);  // the last one needs no place in the cache
  EXPECT_EQ(full["tokens"][2], three["tokens"][2]);
}

TEST(Run, ASeedGivesOneTextHoweverItIsComputed) {
  const std::vector<std::string> words = {"--json",       "--quiet", "--temperature", "3",
                                          "--top-p",      "1",       "--seed",        "17",
                                          "--max-tokens", "40",      "Hello"};
  const Json first = run_demo(words).lines()[0];
  std::vector<std::string> other = words;
  other.insert(other.begin(), {"--isa", "scalar", "--threads", "1", "--chunk", "5"});
  EXPECT_EQ(run_demo(other).lines()[0]["tokens"], first["tokens"]);
  std::vector<std::string> reseeded = words;
  reseeded[7] = "18";
  EXPECT_NE(run_demo(reseeded).lines()[0]["tokens"], first["tokens"]);
  EXPECT_EQ(first["seed"], 17);
}

TEST(Run, RawPromptsGoToTheModelAsTheyAre) {
  const Json rendered =
      run_minim({"template", "--model", MINIM_DEMO_MODEL},
                {.input = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}\n"})
          .lines()[0];
  const Json raw =
      run_demo({"--raw", "--json", "--greedy"}, {.input = rendered["text"].get<std::string>()})
          .lines()[0];
  const Json plain = run_demo({"--json", "--greedy", "Hello"}).lines()[0];
  EXPECT_EQ(raw["tokens"], plain["tokens"]);
  EXPECT_EQ(raw["usage"]["prompt_tokens"], plain["usage"]["prompt_tokens"]);
}

TEST(Run, SpecialTokensTypedInAMessageAreOrdinaryText) {
  const auto n_prompt = [](const std::string& prompt) {
    return run_demo({"--json", "--greedy", "--max-tokens", "1", prompt})
        .lines()[0]["usage"]["prompt_tokens"]
        .get<int>();
  };
  EXPECT_GT(n_prompt("a[e~[b"), n_prompt("ab") + 2);
}

TEST(Run, BytesThatAreNoTextDoNoHarm) {
  const Outcome outcome =
      run_demo({"--greedy", "--max-tokens", "4"}, {.input = std::string("a\xff\xfe\0b\xc3", 7)});
  EXPECT_TRUE(outcome.code == 0 || outcome.code == 1) << outcome.code << outcome.err;
}

TEST(Run, AFullDiskIsAnError) {
  const std::string command = std::string(MINIM_PROGRAM) + " run --quiet --greedy --model " +
                              MINIM_DEMO_MODEL + " Hello > /dev/full 2> /dev/null";
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  const int status = std::system(command.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

// The numbers that stand before each occurrence of `word`.
std::vector<int> numbers_before(const std::string& text, const std::string& word) {
  std::vector<int> out;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    size_t begin = at;
    while (begin > 0 && std::isdigit(static_cast<unsigned char>(text[begin - 1]))) --begin;
    out.push_back(std::atoi(text.substr(begin, at - begin).c_str()));
  }
  return out;
}

TEST(Chat, RemembersWhatWasSaidAndReusesItsCache) {
  Terminal terminal({"run", "--model", MINIM_DEMO_MODEL, "--greedy"});
  ASSERT_TRUE(terminal.wait_for("> "));
  terminal.type("Hello\n");
  ASSERT_TRUE(terminal.wait_for("demo model. Ask me about minim")) << terminal.seen();
  ASSERT_TRUE(terminal.wait_for("(0 cached)")) << terminal.seen();
  ASSERT_TRUE(terminal.wait_for("> "));
  terminal.type("What is 12 + 30?\n");
  ASSERT_TRUE(terminal.wait_for("\x1b[2m")) << "thinking is dimmed; " << terminal.seen();
  ASSERT_TRUE(terminal.wait_for("12 + 30 = 42")) << terminal.seen();
  ASSERT_TRUE(terminal.wait_for(" cached)"));
  // All of the first turn is there but its last token, which never went through the model.
  EXPECT_EQ(numbers_before(terminal.seen(), " cached)").back(),
            numbers_before(terminal.seen(), " prompt tokens").front() +
                numbers_before(terminal.seen(), " generated").front() - 1)
      << terminal.seen();
  ASSERT_TRUE(terminal.wait_for("> "));
  terminal.type("/clear\n");
  terminal.type("/exit\n");
  EXPECT_EQ(terminal.exit_code(), 0);
}

TEST(Chat, ControlCStopsAnAnswerAndThenTheProgram) {
  Terminal terminal({"run", "--model", MINIM_DEMO_MODEL, "--temperature", "5", "--top-p", "1",
                     "--numerics", "reference"});
  ASSERT_TRUE(terminal.wait_for("> "));
  terminal.type("Hello\n");
  ASSERT_TRUE(terminal.wait_for("Hello\r\n"));
  ASSERT_TRUE(terminal.wait_for_bytes(20)) << terminal.seen();  // the answer is under way
  terminal.type("\x03");
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.seen();  // the chat goes on
  EXPECT_NE(terminal.exit_code("\x03"), 0);
}

TEST(Chat, ControlDEndsIt) {
  Terminal terminal({"run", "--model", MINIM_DEMO_MODEL, "--quiet"});
  ASSERT_TRUE(terminal.wait_for("> "));
  EXPECT_EQ(terminal.exit_code("\x15\x04"), 0);  // Ctrl-U removes what a lost key left
}

}  // namespace
}  // namespace minim::testing
