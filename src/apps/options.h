// Every flag of every sub-command, in one table. Parsing, --help, docs/cli.md, the man page and
// shell completion are all made from it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace minim {

enum class OptionKind : uint8_t { kSwitch, kText, kInteger, kNumber, kChoice };

// Sub-commands as bits, for OptionSpec::commands.
inline constexpr unsigned kInRun = 1, kInScore = 2, kInTokenize = 4, kInDetokenize = 8,
                          kInTemplate = 16, kInDoctor = 32, kInParse = 64, kInGrammar = 128,
                          kInAll = 255;

struct OptionSpec {
  const char* name;  // without the dashes
  OptionKind kind;
  const char*
      argument;  // what --help shows: "DIR"; of a kChoice the words, "a|b|c"; "" for a switch
  const char* fallback;  // the default in words; "" when there is nothing to say
  const char* help;
  unsigned commands;
  bool setting;              // also read from MINIM_... and the configuration file
  double low = 0, high = 0;  // of kInteger and kNumber, inclusive
};

std::span<const OptionSpec> option_table();
const OptionSpec* find_option(std::string_view name);  // nullptr: no such flag
// "MINIM_TOP_K" for "top-k".
std::string environment_name(const OptionSpec& option);

}  // namespace minim
