// What may come through a file or a pipe: any bytes, without end.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "apps/json_lines.h"
#include "program.h"

namespace minim::testing {
namespace {

const std::string kTokenizer = std::string(MINIM_TEST_DATA) + "/text/tokenizer";

JsonLines lines_of(const std::string& text) {
  return JsonLines::of(std::make_unique<std::istringstream>(text), "in");
}

TEST(JsonLines, AMillionIdsInOneLinePass) {
  std::string text = "{\"tokens\": [199999";
  for (int i = 1; i < 1000000; ++i) text += ", 199999";
  text += "]}";  // and no line break
  JsonLines lines = lines_of(text);
  const auto line = lines.next();
  ASSERT_TRUE(line && *line);
  const auto tokens = tokens_member(**line, "tokens", 200000, false);
  ASSERT_TRUE(tokens);
  EXPECT_EQ(tokens->size(), 1000000u);
  const auto end = lines.next();
  ASSERT_TRUE(end);
  EXPECT_FALSE(*end);
}

TEST(JsonLines, AnyLengthAroundThatOfThePiecesIsReadWhole) {
  for (const size_t n : {65535u, 65534u, 65536u, 131070u, 131069u}) {
    for (const std::string end : {"", "\n", "\r\n", "\n\n{}"}) {
      const std::string line = "{\"a\":\"" + std::string(n - 8, 'x') + "\"}";
      ASSERT_EQ(line.size(), n);
      JsonLines lines = lines_of(line + end);
      const auto first = lines.next();
      ASSERT_TRUE(first && *first) << n;
      EXPECT_EQ((*first)->value["a"].get<std::string>().size(), n - 8);
      const auto second = lines.next();
      ASSERT_TRUE(second);
      EXPECT_EQ(*second ? (*second)->where : "", end.size() > 2 ? "in line 3" : "") << n;
    }
  }
}

TEST(JsonLines, LineBreaksMayBeThoseOfWindowsAndTheLastOneMayBeAbsent) {
  const Outcome outcome =
      run_minim({"tokenize", "--model", kTokenizer},
                {.input = "\xEF\xBB\xBF{\"text\": \"a\"}\r\n\r\n \t\r\n{\"text\": \"b\"}"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.lines().size(), 2u);
}

TEST(JsonLines, BytesThatAreNoTextAreNamedWithTheirLine) {
  const auto tokenize = [](const std::string& input) {
    return run_minim({"tokenize", "--model", kTokenizer}, {.input = input});
  };
  expect_refusal(tokenize(std::string("\n{\"text\": \"a\0b\"}\n", 17)), 1, {"line 2", "byte 12"});
  expect_refusal(tokenize(std::string(3, '\0')), 1, {"line 1", "JSON"});
  expect_refusal(tokenize("{\"text\": \"\xff\"}\n"), 1, {"line 1", "UTF-8"});
  expect_refusal(tokenize("{\"text\": \"\xc3"), 1, {"line 1", "JSON"});
  const Outcome escaped = tokenize("{\"text\": \"a\\u0000b\"}");
  EXPECT_EQ(escaped.code, 0) << escaped.err;
}

TEST(Input, ALineOrATextWithoutEndIsGivenUp) {
  const std::string limit = std::to_string(kMaxInputBytes);
  expect_refusal(run_minim({"tokenize", "--model", kTokenizer}, {.input_path = "/dev/zero"}), 1,
                 {"standard input line 1", limit});
  expect_refusal(run_minim({"tokenize", "--model", kTokenizer, "--file", "/dev/zero"}), 1,
                 {"/dev/zero line 1", limit});
  expect_refusal(run_minim({"run", "--model", MINIM_DEMO_MODEL, "-"}, {.input_path = "/dev/zero"}),
                 1, {"standard input", limit});
  expect_refusal(run_minim({"run", "--model", MINIM_DEMO_MODEL, "--file", "/dev/zero"}), 1,
                 {"/dev/zero", limit});
}

TEST(Input, ADirectoryIsNoInput) {
  const TempFolder folder;
  for (const char* command : {"tokenize", "run"}) {
    expect_refusal(run_minim({command, "--model", MINIM_DEMO_MODEL, "--file", folder.path()}), 1,
                   {folder.path(), "directory"});
  }
}

TEST(Template, MayComeThroughAPipe) {
  const TempFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&pipe] { write_file(pipe, "{{ messages[0].content }}!"); });
  const Outcome outcome = run_minim({"template", "--template", pipe},
                                    {.input = "{\"messages\": [{\"content\": \"a\"}]}"});
  writer.join();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "{\"text\":\"a!\"}\n");
}

TEST(Template, AHundredThousandVariablesTakeAMoment) {
  std::string line = "{\"messages\": [], \"chat_template_kwargs\": {\"messages\": [7]";
  for (int i = 0; i < 100000; ++i) line += ", \"k" + std::to_string(i) + "\": " + std::to_string(i);
  line += "}}\n";
  const TempFolder folder;
  write_file(folder / "t.jinja",
             "{{ messages[0] }} {{ k0 }} {{ k99999 }} {{ k100000 is defined }}");
  const Outcome outcome =
      run_minim({"template", "--template", folder / "t.jinja"}, {.input = line});
  EXPECT_EQ(outcome.out, "{\"text\":\"7 0 99999 False\"}\n") << outcome.err;
}

}  // namespace
}  // namespace minim::testing
