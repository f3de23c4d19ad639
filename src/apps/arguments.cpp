// Three sources, one check. A value is checked where it enters, with its source in the message, so
// that commands need not look again.
#include "apps/arguments.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "apps/cli11.h"
#include "apps/config_file.h"
#include "apps/options.h"
#include "base/check.h"

namespace minim {
namespace {

template <typename T>
std::optional<T> parse_whole(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_choice(std::string_view choices, std::string_view word) {
  while (!choices.empty()) {
    const size_t end = std::min(choices.find('|'), choices.size());
    if (choices.substr(0, end) == word) return true;
    choices.remove_prefix(std::min(end + 1, choices.size()));
  }
  return false;
}

std::string range_text(const OptionSpec& option) {
  return fmt::format("{} from {:.17g} to {:.17g}",
                     option.kind == OptionKind::kInteger ? "a whole number" : "a number",
                     option.low, option.high);
}

// The value in the form that getters expect, or what would be allowed.
Result<std::string> checked(const OptionSpec& option, const std::string& value,
                            const std::string& source) {
  const auto refuse = [&](const std::string& wanted) {
    return Error{Code::kInvalid, fmt::format("{} is '{}', wanted: {}", source, value, wanted)};
  };
  switch (option.kind) {
    case OptionKind::kSwitch:
      if (value == "true" || value == "1" || value == "yes" || value == "on")
        return std::string("1");
      if (value == "false" || value == "0" || value == "no" || value == "off") return std::string();
      return refuse("true or false");
    case OptionKind::kInteger:
    case OptionKind::kNumber: {
      std::optional<double> number;
      if (option.kind == OptionKind::kNumber) {
        number = parse_whole<double>(value);
      } else if (const auto integer = parse_whole<int64_t>(value)) {
        number = static_cast<double>(*integer);
      }
      if (!number || !std::isfinite(*number) || *number < option.low || *number > option.high) {
        return refuse(range_text(option));
      }
      return value;
    }
    case OptionKind::kChoice:
      if (!is_choice(option.argument, value)) return refuse(option.argument);
      return value;
    case OptionKind::kText:
      // A text to work on may be empty; where the model is may not.
      if (option.setting && value.empty()) return refuse(option.argument);
      return value;
  }
  return value;
}

std::string default_config_path() {
  if (const char* folder = std::getenv("XDG_CONFIG_HOME"); folder != nullptr && *folder != '\0') {
    return std::string(folder) + "/minim/config.toml";
  }
  const char* home = std::getenv("HOME");
  return home != nullptr && *home != '\0' ? std::string(home) + "/.config/minim/config.toml"
                                          : std::string();
}

}  // namespace

Result<Arguments> Arguments::parse(const Command& command, const std::vector<std::string>& words) {
  std::vector<const OptionSpec*> options;
  for (const OptionSpec& option : option_table()) {
    if ((option.commands & command.bit) != 0) options.push_back(&option);
  }
  Result<ParsedWords> parsed = parse_words(options, words);
  if (!parsed) return parsed.error();
  Arguments arguments;
  arguments.help_ = parsed->help;
  arguments.words_ = std::move(parsed->words);
  if (arguments.help_) return arguments;

  std::vector<Setting> settings;  // later ones win
  std::string config_path = default_config_path();
  bool config_wanted = false;
  if (const char* path = std::getenv("MINIM_CONFIG"); path != nullptr && *path != '\0') {
    config_path = path;
    config_wanted = true;
  }
  for (const auto& [option, value] : parsed->flags) {
    if (std::string_view(option->name) != "config") continue;
    config_path = value;
    config_wanted = true;
  }
  std::error_code ignored;
  if (config_wanted || (!config_path.empty() && std::filesystem::exists(config_path, ignored))) {
    Result<std::vector<Setting>> from_file = read_config_file(config_path, command);
    if (!from_file) return from_file.error();
    settings = *std::move(from_file);
  }
  for (const OptionSpec* option : options) {
    if (!option->setting) continue;
    const std::string name = environment_name(*option);
    const char* value = std::getenv(name.c_str());
    if (value != nullptr && *value != '\0') settings.push_back({option, value, name});
  }
  for (const auto& [option, value] : parsed->flags) {
    settings.push_back({option, value, std::string("--") + option->name});
  }
  for (const Setting& setting : settings) {
    Result<std::string> value = checked(*setting.option, setting.value, setting.source);
    if (!value) return value.error();
    arguments.values_[setting.option->name] = *value;
  }
  return arguments;
}

bool Arguments::given(std::string_view name) const {
  CHECK(find_option(name) != nullptr);
  return values_.find(name) != values_.end();
}

const std::string& Arguments::text(std::string_view name) const {
  static const std::string empty;
  CHECK(find_option(name) != nullptr);
  const auto found = values_.find(name);
  return found == values_.end() ? empty : found->second;
}

bool Arguments::on(std::string_view name) const { return !text(name).empty(); }

int64_t Arguments::integer(std::string_view name, int64_t fallback) const {
  return given(name) ? *parse_whole<int64_t>(text(name)) : fallback;
}

double Arguments::number(std::string_view name, double fallback) const {
  return given(name) ? *parse_whole<double>(text(name)) : fallback;
}

}  // namespace minim
