// Arbitrary bytes as a configuration file and as the words behind a sub-command. The input is the
// number of a command, the file, and behind a NUL byte the words, each ended by a NUL. What is
// accepted must be readable through every getter; what is not must be told in one line.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "apps/arguments.h"
#include "apps/config_file.h"
#include "apps/options.h"
#include "base/result.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\0'), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

void read_all(const minim::Command& command, const minim::Arguments& arguments) {
  for (const minim::OptionSpec& option : minim::option_table()) {
    if ((option.commands & command.bit) == 0) require(!arguments.given(option.name));
    if (!arguments.given(option.name)) continue;
    if (option.kind == minim::OptionKind::kInteger) {
      const auto value = static_cast<double>(arguments.integer(option.name, 0));
      require(value >= option.low && value <= option.high);
    } else if (option.kind == minim::OptionKind::kNumber) {
      const double value = arguments.number(option.name, 0);
      require(value >= option.low && value <= option.high);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  setenv("HOME", "/nonexistent", 1);
  unsetenv("XDG_CONFIG_HOME");
  unsetenv("MINIM_CONFIG");
  for (const minim::OptionSpec& option : minim::option_table()) {
    unsetenv(minim::environment_name(option).c_str());
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto commands = minim::command_table();
  const minim::Command& command = commands[data[0] % commands.size()];
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t cut = std::min(input.find('\0'), input.size());
  const std::string_view config = input.substr(0, cut);

  const int file = memfd_create("config", 0);
  require(file >= 0 && write(file, config.data(), config.size()) == static_cast<ssize_t>(cut));
  std::vector<std::string> words = words_of(input.substr(std::min(cut + 1, input.size())));
  for (const std::string& word : words) {  // no other file is to be read
    if (word.starts_with("--config")) {
      close(file);
      return 0;
    }
  }
  words.insert(words.begin(), {"--config", "/proc/self/fd/" + std::to_string(file)});
  const auto arguments = minim::Arguments::parse(command, words);
  close(file);
  if (arguments) {
    read_all(command, *arguments);
  } else {
    require(!arguments.error().message.empty());
  }
  const auto settings = minim::parse_config_file(input, "fuzz", command);
  if (!settings) require(settings.error().message.find('\n') == std::string::npos);
  return 0;
}
