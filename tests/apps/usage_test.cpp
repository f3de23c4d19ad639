#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/help.h"
#include "apps/options.h"
#include "program.h"

namespace minim::testing {
namespace {

const std::string kTokenizerFolder = std::string(MINIM_TEST_DATA) + "/text/tokenizer";

TEST(Usage, HelpNamesEveryCommandAndNoOther) {
  const Outcome help = run_minim({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.err, "");
  for (const Command& command : command_table()) {
    EXPECT_NE(help.out.find(std::string("  ") + command.name + " "), std::string::npos);
  }
  for (const char* later : {"serve", "plan", "bench", "replay", "manifest"}) {
    EXPECT_EQ(help.out.find(later), std::string::npos) << later;
  }
}

TEST(Usage, CommandHelpNamesEveryFlagOfTheTable) {
  for (const Command& command : command_table()) {
    const Outcome help = run_minim({command.name, "--help"});
    EXPECT_EQ(help.code, 0);
    for (const OptionSpec& option : option_table()) {
      const bool listed =
          help.out.find(std::string("\n  --") + option.name + " ") != std::string::npos ||
          help.out.find(std::string("\n  --") + option.name + "\n") != std::string::npos;
      EXPECT_EQ(listed, (option.commands & command.bit) != 0) << command.name << ' ' << option.name;
    }
  }
}

TEST(Usage, CommittedDocumentsAreTheGeneratedOnes) {
  const std::string root = MINIM_SOURCE_DIR;
  EXPECT_EQ(slurp(root + "/docs/cli.md"), markdown_reference())
      << "build/minim --generate markdown > docs/cli.md";
  EXPECT_EQ(slurp(root + "/packaging/minim.1"), man_page())
      << "build/minim --generate man > packaging/minim.1";
  EXPECT_EQ(slurp(root + "/packaging/minim.bash"), bash_completion())
      << "build/minim --generate bash > packaging/minim.bash";
  EXPECT_EQ(run_minim({"--generate", "markdown"}).out, markdown_reference());
}

TEST(Usage, ReadmeListsTheSameCommands) {
  const std::string readme = slurp(std::string(MINIM_SOURCE_DIR) + "/README.md");
  const size_t start = readme.find("## Commands");
  ASSERT_NE(start, std::string::npos);
  const std::string section = readme.substr(start, readme.find("\n## ", start + 1) - start);
  std::set<std::string> listed, wanted;
  for (size_t at = section.find("\n| `minim "); at != std::string::npos;
       at = section.find("\n| `minim ", at + 1)) {
    const size_t name = at + std::string("\n| `minim ").size();
    listed.insert(section.substr(name, section.find_first_of(" `", name) - name));
  }
  for (const Command& command : command_table()) wanted.insert(command.name);
  EXPECT_EQ(listed, wanted);
}

TEST(Usage, VersionIsOneLine) {
  const Outcome version = run_minim({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(version.out.rfind("minim ", 0), 0u);
}

TEST(Usage, MistakesEndWithCodeTwoAndOneLine) {
  expect_refusal(run_minim({"chat"}), 2, {"chat", "--help"});
  expect_refusal(run_minim({"serve", "--port", "1"}), 2, {"serve", "not part of this version"});
  expect_refusal(run_minim({"--model", "x", "run"}), 2, {"--model"});
  expect_refusal(run_minim({"run", "--frobnicate"}), 2, {"--frobnicate", "minim run --help"});
  expect_refusal(run_minim({"run", "two", "prompts"}), 2, {"prompts", "quotes"});
  expect_refusal(run_minim({"doctor", "now"}), 2, {"now"});
  expect_refusal(run_minim({"run", "--threads"}), 2, {"--threads"});
  expect_refusal(run_minim({"run", "--threads", "two", "x"}), 2, {"--threads", "two"});
  expect_refusal(run_minim({"run", "--threads", "0", "x"}), 2, {"--threads", "from 1"});
  expect_refusal(run_minim({"run", "--temperature", "nan", "x"}), 2, {"--temperature", "nan"});
  expect_refusal(run_minim({"run", "--top-p", "1.5", "x"}), 2, {"--top-p", "1.5"});
  expect_refusal(run_minim({"run", "--isa", "sse2", "x"}), 2, {"--isa", "scalar|avx2|avx512|auto"});
  expect_refusal(run_minim({"run", "--thinking", "maybe", "x"}), 2, {"--thinking", "maybe"});
  expect_refusal(run_minim({"run", "x", "--file", "y"}), 2, {"--file"});
  expect_refusal(run_minim({"run", "--raw", "--system", "s", "x"}), 2, {"--system", "--raw"});
  expect_refusal(run_minim({"run", "--raw", "--tools", "t", "x"}), 2, {"--tools", "--raw"});
  expect_refusal(run_minim({"score"}), 2, {"--tokens"});
  expect_refusal(run_minim({"score", "--tokens", "1", "--text", "a"}), 2, {"--text"});
  expect_refusal(run_minim({"tokenize", "--text", "a", "--file", "b"}), 2, {"--file"});
  expect_refusal(run_minim({"run", "--repetition-penalty", "0", "x"}), 2, {"--repetition-penalty"});
  const Outcome nothing = run_minim({});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_NE(nothing.err.find("usage"), std::string::npos);
}

TEST(Usage, AMessageCannotSteerTheTerminalWhateverItQuotes) {
  const Outcome outcome = run_minim({"\x1b[31m\xc2\x9b\xff\n" + std::string(100000, 'x')});
  expect_refusal(outcome, 2, {"[31m", "\xEF\xBF\xBD", "..."});
  EXPECT_EQ(outcome.err.find('\x1b'), std::string::npos);
  EXPECT_EQ(outcome.err.find("\xc2\x9b"), std::string::npos);
  EXPECT_LT(outcome.err.size(), 3000u);
}

TEST(Usage, FlagBeatsVariableBeatsFile) {
  // --numerics fast is refused by name, so it shows which source won.
  const TempFolder folder;
  const std::string config = folder / "config.toml";
  const std::string file = "MINIM_CONFIG=" + config;
  const std::vector<std::string> score = {"score", "--tokens", "1,2", "--model",
                                          golden_model("m3-text")};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), score.begin(), score.end());
    return more;
  };
  write_file(config, "numerics = \"fast\"\n");
  expect_refusal(run_minim(score, {.environment = {file}}), 1, {"fast", "not available"});
  EXPECT_EQ(run_minim(score, {.environment = {file, "MINIM_NUMERICS=exact"}}).code, 0);
  write_file(config, "numerics = \"exact\"\n");
  expect_refusal(run_minim(score, {.environment = {file, "MINIM_NUMERICS=fast"}}), 1, {"fast"});
  EXPECT_EQ(run_minim(with({"--numerics", "exact"}), {.environment = {"MINIM_NUMERICS=fast"}}).code,
            0);
  expect_refusal(run_minim(with({"--numerics", "fast"}), {.environment = {file}}), 1, {"fast"});

  write_file(config, "numerics = \"exact\"\n[score]\nnumerics = \"fast\"\n");
  expect_refusal(run_minim(score, {.environment = {file}}), 1, {"fast"});
  write_file(config, "numerics = \"exact\"\n[ score ] # here\nnumerics = fast # not there\n");
  expect_refusal(run_minim(score, {.environment = {file}}), 1, {"fast"});
  write_file(config, "[run]\nnumerics = \"fast\"\n");
  EXPECT_EQ(run_minim(score, {.environment = {file}}).code, 0);
  EXPECT_EQ(run_minim(with({"--config", config})).code, 0);
}

TEST(Usage, BadSettingsNameTheirSource) {
  const TempFolder folder;
  const std::string config = folder / "config.toml";
  const std::vector<std::string> words = {"tokenize",       "--text",   "a",   "--model",
                                          kTokenizerFolder, "--config", config};
  expect_refusal(run_minim(words), 2, {config});
  write_file(config, "colour = 1\n");
  expect_refusal(run_minim(words), 2, {config, "colour"});
  write_file(config, "[later]\nthreads = 1\n");
  expect_refusal(run_minim(words), 2, {config, "later"});
  write_file(config, "threads = \"many\"\n");
  expect_refusal(run_minim(words), 2, {config, "threads", "many"});
  write_file(config, "# nothing\n");
  EXPECT_EQ(run_minim(words).code, 0);
  expect_refusal(run_minim({"tokenize", "--text", "a", "--model", ""}), 2, {"--model", "DIR"});
  expect_refusal(run_minim(words, {.environment = {"MINIM_THREADS=-3"}}), 2,
                 {"MINIM_THREADS", "-3"});
}

TEST(Usage, AConfigurationFileThatIsNoTextFileIsOneClearError) {
  const TempFolder folder;
  const auto with = [](const std::string& file) {
    return run_minim({"tokenize", "--text", "a", "--model", kTokenizerFolder, "--config", file});
  };
  expect_refusal(with(folder.path()), 2, {folder.path(), "directory"});
  expect_refusal(with("/dev/zero"), 2, {"/dev/zero", "bytes"});
  write_file(folder / "binary", std::string("threads\0= 1", 11));
  expect_refusal(with(folder / "binary"), 2, {"binary", "not a text file"});
  write_file(folder / "latin", "model = \"caf\xe9\"\n");
  expect_refusal(with(folder / "latin"), 2, {"latin", "not a text file"});
  write_file(folder / "closed", "");
  std::filesystem::permissions(folder / "closed", std::filesystem::perms::none);
  if (access((folder / "closed").c_str(), R_OK) != 0) {  // root may read all
    expect_refusal(with(folder / "closed"), 2, {"closed", "denied"});
  }
}

TEST(Usage, AWordBehindTwoDashesIsAPromptWhateverItBeginsWith) {
  expect_refusal(run_minim({"run", "--model", "/nowhere", "--", "--frobnicate"}), 1, {"/nowhere"});
}

}  // namespace
}  // namespace minim::testing
