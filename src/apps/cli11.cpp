// CLI11 is used for what it is good at, taking words apart. Precedence is ours (arguments.cpp),
// because CLI11 lets the file win over the environment; so are --help and the configuration file.
#include "apps/cli11.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>
#include <exception>

namespace minim {
namespace {

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (!text.empty() && (text.back() == ' ' || text.back() == '.')) text.pop_back();
  return text;
}

}  // namespace

Result<ParsedWords> parse_words(std::span<const OptionSpec* const> options,
                                const std::vector<std::string>& words) {
  const auto end = std::find(words.begin(), words.end(), "--");
  ParsedWords parsed;
  try {
    CLI::App app;
    app.set_help_flag();
    // Extras are collected rather than declared: a declared list would split a prompt "[a, b]".
    app.allow_extras();
    app.add_flag("-h,--help", parsed.help);
    std::deque<std::string> values;
    std::vector<CLI::Option*> added;
    for (const OptionSpec* option : options) {
      const std::string flag = std::string("--") + option->name;
      std::string& value = values.emplace_back();
      added.push_back(option->kind == OptionKind::kSwitch ? app.add_flag(flag, value)
                                                          : app.add_option(flag, value));
    }
    std::vector<std::string> reversed(words.begin(), end);
    std::reverse(reversed.begin(), reversed.end());
    app.parse(reversed);
    for (size_t i = 0; i < added.size(); ++i) {
      if (added[i]->count() > 0) parsed.flags.emplace_back(options[i], values[i]);
    }
    parsed.words = app.remaining();
  } catch (const std::exception& e) {
    return Error{Code::kInvalid, one_line(e.what())};
  }
  for (const std::string& word : parsed.words) {
    if (word.size() > 1 && word[0] == '-') {
      return Error{Code::kInvalid,
                   fmt::format("unknown flag {} (a word that begins with - goes behind --)", word)};
    }
  }
  if (end != words.end()) parsed.words.insert(parsed.words.end(), end + 1, words.end());
  return parsed;
}

}  // namespace minim
