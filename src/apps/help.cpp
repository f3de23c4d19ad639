// One table, five forms: --help of the program and of a command, Markdown, man, bash. A test
// compares the committed files with these functions, so none of them can fall behind.
#include "apps/help.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "apps/options.h"

namespace minim {
namespace {

constexpr size_t kWidth = 96;

std::string wrap(std::string_view text, size_t indent, size_t first_column) {
  std::string out;
  size_t column = first_column;
  bool fresh = true;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!fresh && column + 1 + word.size() > kWidth) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
      fresh = true;
    }
    if (!fresh) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    fresh = false;
  }
  return out;
}

std::vector<std::string_view> paragraphs(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find("\n\n"), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 2, text.size()));
  }
  return out;
}

std::string flag_form(const OptionSpec& option) {
  return option.kind == OptionKind::kSwitch ? fmt::format("--{}", option.name)
                                            : fmt::format("--{} {}", option.name, option.argument);
}

std::string usage(const Command& command) {
  return fmt::format("minim {}{}{} [FLAGS]", command.name, *command.words != '\0' ? " " : "",
                     command.words);
}

// A command's own flags first, then those that all have.
std::vector<const OptionSpec*> own_options(const Command& command) {
  std::vector<const OptionSpec*> out;
  for (const OptionSpec& option : option_table()) {
    if (option.commands != kInAll && (option.commands & command.bit) != 0) out.push_back(&option);
  }
  return out;
}

std::vector<const OptionSpec*> common_options() {
  std::vector<const OptionSpec*> out;
  for (const OptionSpec& option : option_table()) {
    if (option.commands == kInAll) out.push_back(&option);
  }
  return out;
}

std::string option_list(const std::vector<const OptionSpec*>& options) {
  constexpr size_t kIndent = 6;
  std::string out;
  for (const OptionSpec* option : options) {
    std::string help = option->help;
    if (*option->fallback != '\0') help += fmt::format(" Default: {}.", option->fallback);
    out += fmt::format("  {}\n{}{}\n", flag_form(*option), std::string(kIndent, ' '),
                       wrap(help, kIndent, kIndent));
  }
  return out;
}

constexpr std::string_view kSettingsText =
    "Settings (marked * in docs/cli.md) are also read from the environment, MINIM_ and the flag's "
    "name in capitals with _ for - (MINIM_KV_DTYPE), and from a configuration file: lines of "
    "flag = value, general or in a [section] named after a sub-command; a value with blanks or "
    "signs "
    "is put in quotes, # begins a comment. A flag beats the variable, "
    "the variable beats the file. The file is --config, MINIM_CONFIG or "
    "~/.config/minim/config.toml.";

constexpr std::string_view kExitText =
    "Results go to standard output, progress and messages to standard error. Exit codes: 0 done, "
    "1 cannot (one line says what was found, what was wanted, and a hint), 2 wrong usage, 130 "
    "interrupted (Ctrl-C), 143 after SIGTERM, 129 after SIGHUP.";

std::string markdown_table(const std::vector<const OptionSpec*>& options) {
  std::string out = "| flag | default | meaning |\n| --- | --- | --- |\n";
  for (const OptionSpec* option : options) {
    std::string flag = flag_form(*option);
    for (size_t at = flag.find('|'); at != std::string::npos; at = flag.find('|', at + 2)) {
      flag.replace(at, 1, "\\|");
    }
    out += fmt::format("| `{}`{} | {} | {} |\n", flag, option->setting ? " *" : "",
                       option->fallback, option->help);
  }
  return out;
}

// A line of text for roff: a leading dot or quote and every backslash and hyphen escaped.
std::string roff(std::string_view text) {
  std::string out;
  if (!text.empty() && (text[0] == '.' || text[0] == '\'')) out += "\\&";
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else {
      if (c == '-') out += '\\';
      out += c;
    }
  }
  return out;
}

std::string man_options(const std::vector<const OptionSpec*>& options) {
  std::string out;
  for (const OptionSpec* option : options) {
    out += fmt::format(".TP\n\\fB{}\\fR\n{}{}\n", roff(flag_form(*option)), roff(option->help),
                       *option->fallback == '\0'
                           ? std::string()
                           : roff(fmt::format(" Default: {}.", option->fallback)));
  }
  return out;
}

}  // namespace

std::string program_help() {
  std::string out =
      "minim runs MiniMax-M3 checkpoints on this machine.\n\nusage: minim COMMAND [FLAGS]\n\n";
  for (const Command& command : command_table()) {
    out += fmt::format("  {:<12}{}\n", command.name, command.summary);
  }
  out += "\n  --help      this text; minim COMMAND --help lists a command's flags\n";
  out += "  --version   the version\n\n";
  return out + wrap(kExitText, 0, 0) + "\n";
}

std::string command_help(const Command& command) {
  std::string out = fmt::format("usage: {}\n\n", usage(command));
  for (const std::string_view paragraph : paragraphs(command.description)) {
    out += wrap(paragraph, 0, 0) + "\n\n";
  }
  if (const auto own = own_options(command); !own.empty()) {
    out += "Flags:\n" + option_list(own) + "\n";
  }
  out += "Common flags:\n" + option_list(common_options()) + "\n";
  return out + wrap(kSettingsText, 0, 0) + "\n";
}

std::string markdown_reference() {
  std::string out = "# The command line\n\n";
  out +=
      "Made from the option table of the program (`minim --generate markdown`); do not edit.\n\n";
  out += "| command | does |\n| --- | --- |\n";
  for (const Command& command : command_table()) {
    out += fmt::format("| [`minim {}`](#minim-{}) | {} |\n", command.name, command.name,
                       command.summary);
  }
  out += fmt::format("\n{}\n\n{}\n", kExitText, kSettingsText);
  for (const Command& command : command_table()) {
    out += fmt::format("\n## minim {}\n\n`{}`\n", command.name, usage(command));
    for (const std::string_view paragraph : paragraphs(command.description)) {
      out += fmt::format("\n{}\n", paragraph);
    }
    if (const auto own = own_options(command); !own.empty()) {
      out += '\n';
      out += markdown_table(own);
    }
  }
  return out + "\n## Common flags\n\n" + markdown_table(common_options());
}

std::string man_page() {
  std::string out =
      ".TH MINIM 1\n.SH NAME\nminim \\- runs MiniMax\\-M3 checkpoints\n.SH SYNOPSIS\n";
  for (const Command& command : command_table()) {
    out += fmt::format(".B {}\n.br\n", roff(usage(command)));
  }
  out += fmt::format(".SH DESCRIPTION\n{}\n.PP\n{}\n", roff(kExitText), roff(kSettingsText));
  for (const Command& command : command_table()) {
    out += fmt::format(".SH MINIM {}\n", roff(command.name));
    for (const std::string_view paragraph : paragraphs(command.description)) {
      out += fmt::format("{}\n.PP\n", roff(paragraph));
    }
    out += man_options(own_options(command));
  }
  return out + ".SH COMMON FLAGS\n" + man_options(common_options());
}

std::string bash_completion() {
  std::string names, cases, choices;
  for (const Command& command : command_table()) {
    names += fmt::format("{}{}", names.empty() ? "" : " ", command.name);
    std::string flags = "--help";
    for (const OptionSpec& option : option_table()) {
      if ((option.commands & command.bit) != 0) flags += fmt::format(" --{}", option.name);
    }
    cases += fmt::format("    {}) words=\"{}\" ;;\n", command.name, flags);
  }
  for (const OptionSpec& option : option_table()) {
    if (option.kind == OptionKind::kChoice) {
      std::string words = option.argument;
      for (char& c : words) c = c == '|' ? ' ' : c;
      choices +=
          fmt::format("    --{}) COMPREPLY=($(compgen -W \"{}\" -- \"$current\")); return ;;\n",
                      option.name, words);
    } else if (std::string_view(option.argument) == "FILE") {
      choices += fmt::format("    --{}) COMPREPLY=($(compgen -f -- \"$current\")); return ;;\n",
                             option.name);
    } else if (std::string_view(option.argument) == "DIR") {
      choices += fmt::format("    --{}) COMPREPLY=($(compgen -d -- \"$current\")); return ;;\n",
                             option.name);
    }
  }
  return fmt::format(
      "# Completion of minim for bash, made from its option table (minim --generate bash).\n"
      "_minim() {{\n"
      "  local current=\"${{COMP_WORDS[COMP_CWORD]}}\" words=\"\"\n"
      "  case \"${{COMP_WORDS[COMP_CWORD-1]}}\" in\n{}  esac\n"
      "  case \"${{COMP_WORDS[1]}}\" in\n{}    *) words=\"{} --help --version\" ;;\n  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "}}\n"
      "complete -o default -F _minim minim\n",
      choices, cases, names);
}

}  // namespace minim
