#include "apps/config_file.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace minim::testing {
namespace {

// "name=value;" of each setting, or the error.
std::string read(const std::string& text, const char* command = "run") {
  const Result<std::vector<Setting>> settings =
      parse_config_file(text, "c", *find_command(command));
  if (!settings) return settings.error().message;
  std::string out;
  for (const Setting& setting : *settings) {
    out += std::string(setting.option->name) + "=" + setting.value + ";";
  }
  return out;
}

TEST(ConfigFile, ValuesAreQuotedOrOneWord) {
  EXPECT_EQ(read("model = \"/a b/#1, [x]\" # a comment\n"), "model=/a b/#1, [x];");
  EXPECT_EQ(read("model='/a\\b \"c\"'"), "model=/a\\b \"c\";");
  EXPECT_EQ(read("model = \"a\\\"b\\\\\\u00e9\""), "model=a\"b\\\xC3\xA9;");
  EXPECT_EQ(read("\tmodel=/a/b# a comment\r\nthreads = 4\r\n"), "model=/a/b;threads=4;");
  EXPECT_EQ(read("greedy = true"), "greedy=true;");
  EXPECT_EQ(read("model = \"\""), "model=;");
}

TEST(ConfigFile, ASectionIsForItsCommandAndStandsBehindTheGeneralPart) {
  const std::string text = "threads = 1\n[score]\nthreads = 2\n[run]\nthreads = 3\n";
  EXPECT_EQ(read(text, "run"), "threads=1;threads=3;");
  EXPECT_EQ(read(text, "score"), "threads=1;threads=2;");
  EXPECT_EQ(read(text, "doctor"), "threads=1;");
  EXPECT_EQ(read("seed = 1", "doctor"), "");  // of another command
}

TEST(ConfigFile, NothingIsAllRight) {
  EXPECT_EQ(read(""), "");
  EXPECT_EQ(read("\n\r\n  # nothing\n[run]"), "");
  EXPECT_EQ(read("\xEF\xBB\xBFthreads = 1"), "threads=1;");  // as Windows writes it
}

TEST(ConfigFile, EachMistakeIsNamedWithItsLine) {
  const std::string value = ", wanted: one value; quote it if it has blanks or signs";
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"\nmodel =\n", "c line 2: model is \"\"" + value},
           {"model = # a comment", "c line 1: model is \"# a comment\"" + value},
           {"model = a b", "c line 1: model is \"a b\"" + value},
           {"model = \"a", "c line 1: model is \"\\\"a\"" + value},
           {"model = \"a\" b", "c line 1: model is \"\\\"a\\\" b\"" + value},
           {"model = \"\"\"a\"\"\"", "c line 1: model is \"\\\"\\\"\\\"a\\\"\\\"\\\"\"" + value},
           {"model = \"\\q\"", "c line 1: model is \"\\\"\\\\q\\\"\"" + value},
           {"threads = [1, 2]", "c line 1: threads is \"[1, 2]\"" + value},
           {"x=", "c line 1: unknown setting \"x\"; settings have the names of flags"},
           {"= 1", "c line 1: unknown setting \"\"; settings have the names of flags"},
           {"config = x", "c line 1: unknown setting \"config\"; settings have the names of flags"},
           {"prompt = x", "c line 1: unknown setting \"prompt\"; settings have the names of flags"},
           {"threads = 1\n#\nthreads = 1", "c line 3: threads comes twice"},
           {"[run]\nthreads = 1\n[score]\n[run]\nthreads = 2", "c line 5: threads comes twice"},
           {"[score]\nseed = 1", "c line 2: seed is no setting of score"},
           {"[later]",
            "c line 1: unknown section \"later\"; sections have the names of "
            "sub-commands"},
           {"[run.x]",
            "c line 1: unknown section \"run.x\"; sections have the names of "
            "sub-commands"},
           {"[[run]]", "c line 1: found \"[[run]]\", wanted: [command]"},
           {"[run", "c line 1: found \"[run\", wanted: [command]"},
           {"greedy", "c line 1: found \"greedy\", wanted: name = value, [command] or # comment"},
       }) {
    EXPECT_EQ(read(text), message);
  }
}

TEST(ConfigFile, LongLinesDoNotMakeLongMessages) {
  for (const std::string& text : {std::string(1 << 20, 'x'), "[" + std::string(1 << 20, '.') + "]",
                                  std::string(1 << 20, '=')}) {
    EXPECT_LT(read(text).size(), 300u);
  }
}

}  // namespace
}  // namespace minim::testing
