// The sub-commands as a table.
#pragma once

#include <span>
#include <string_view>

namespace minim {

class Arguments;

// Exit codes of the program; console.h has that of a signal.
inline constexpr int kDone = 0, kCannot = 1, kUsage = 2;

struct Command {
  const char* name;
  unsigned bit;             // in OptionSpec::commands
  const char* words;        // what may follow that is not a flag: "[PROMPT]"; "" for nothing
  const char* summary;      // one line, no full stop
  const char* description;  // paragraphs for --help and docs/cli.md, separated by \n\n
  int (*run)(const Arguments&);
};

std::span<const Command> command_table();
const Command* find_command(std::string_view name);  // nullptr: no such command

// One function a file.
int run_command(const Arguments& arguments);
int score_command(const Arguments& arguments);
int tokenize_command(const Arguments& arguments);
int detokenize_command(const Arguments& arguments);
int template_command(const Arguments& arguments);
int parse_command(const Arguments& arguments);
int grammar_command(const Arguments& arguments);
int doctor_command(const Arguments& arguments);

// The program: words after argv[0].
int run_program(int argc, char** argv);

}  // namespace minim
