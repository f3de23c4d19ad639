// Owns the reading of settings from a file, line by line, each line on its own. CLI11's reader was
// used before and lost: it cuts a quoted path at '#', passes over short lines, and cannot say where
// a mistake is. A whole TOML library would read tables and dates that no flag takes.
#include "apps/config_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/json_fields.h"
#include "text/utf8.h"

namespace minim {
namespace {

constexpr size_t kMaxConfigBytes = size_t{1} << 20;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

bool blank_or_comment(std::string_view text) {
  text = trimmed(text);
  return text.empty() || text[0] == '#';
}

// Just behind the closing quote of a text that begins with one; npos if there is none.
size_t quoted_length(std::string_view text) {
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == text[0]) return i + 1;
    if (text[i] == '\\' && text[0] == '"') ++i;
  }
  return std::string_view::npos;
}

// What stands behind the '='; nullopt: no value of a known form.
std::optional<std::string> parse_value(std::string_view text) {
  text = trimmed(text);
  if (text.empty()) return std::nullopt;
  if (text[0] != '"' && text[0] != '\'') {
    const std::string_view word = trimmed(text.substr(0, text.find('#')));
    if (word.empty() || word.find_first_of(" \t\"'[]{},=") != std::string_view::npos) {
      return std::nullopt;
    }
    return std::string(word);
  }
  const size_t length = quoted_length(text);
  if (length == std::string_view::npos || !blank_or_comment(text.substr(length))) {
    return std::nullopt;
  }
  if (text[0] == '\'') return std::string(text.substr(1, length - 2));
  const Result<Json> string = parse_json(text.substr(0, length), "");
  if (!string) return std::nullopt;
  return string->get<std::string>();
}

class ConfigReader {
 public:
  ConfigReader(const std::string& name, const Command& command) : name_(name), command_(command) {}

  Result<Ok> read_line(std::string_view line) {
    ++line_;
    line = trimmed(line);
    if (blank_or_comment(line)) return Ok{};
    if (line[0] == '[') return read_section(line);
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      return wrong(
          fmt::format("found {}, wanted: name = value, [command] or # comment", in_quotes(line)));
    }
    return read_setting(trimmed(line.substr(0, equals)), line.substr(equals + 1));
  }

  std::vector<Setting> take() {
    general_.insert(general_.end(), std::make_move_iterator(own_.begin()),
                    std::make_move_iterator(own_.end()));
    return std::move(general_);
  }

 private:
  Error wrong(const std::string& what) const {
    return {Code::kInvalid, fmt::format("{} line {}: {}", name_, line_, what)};
  }

  Result<Ok> read_section(std::string_view line) {
    const size_t close = line.find(']');
    if (close == std::string_view::npos || !blank_or_comment(line.substr(close + 1))) {
      return wrong(fmt::format("found {}, wanted: [command]", in_quotes(line)));
    }
    const std::string_view section = trimmed(line.substr(1, close - 1));
    section_ = find_command(section);
    if (section_ != nullptr) return Ok{};
    return wrong(fmt::format("unknown section {}; sections have the names of sub-commands",
                             in_quotes(section)));
  }

  Result<Ok> read_setting(std::string_view key, std::string_view text) {
    const OptionSpec* option = find_option(key);
    if (option == nullptr || !option->setting) {
      return wrong(
          fmt::format("unknown setting {}; settings have the names of flags", in_quotes(key)));
    }
    if (section_ != nullptr && (option->commands & section_->bit) == 0) {
      return wrong(fmt::format("{} is no setting of {}", key, section_->name));
    }
    const std::pair<const Command*, const OptionSpec*> place(section_, option);
    if (std::find(seen_.begin(), seen_.end(), place) != seen_.end()) {
      return wrong(fmt::format("{} comes twice", key));
    }
    seen_.push_back(place);
    std::optional<std::string> value = parse_value(text);
    if (!value) {
      return wrong(fmt::format("{} is {}, wanted: one value; quote it if it has blanks or signs",
                               key, in_quotes(trimmed(text))));
    }
    if ((option->commands & command_.bit) == 0) return Ok{};
    Setting setting{option, *std::move(value), fmt::format("{} line {}: {}", name_, line_, key)};
    if (section_ == nullptr) general_.push_back(std::move(setting));
    if (section_ == &command_) own_.push_back(std::move(setting));
    return Ok{};
  }

  const std::string& name_;
  const Command& command_;
  const Command* section_ = nullptr;  // of the lines that follow; null: for all commands
  size_t line_ = 0;
  std::vector<Setting> general_, own_;
  std::vector<std::pair<const Command*, const OptionSpec*>> seen_;  // no more than the tables have
};

}  // namespace

Result<std::vector<Setting>> parse_config_file(std::string_view text, const std::string& name,
                                               const Command& command) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.find('\0') != std::string_view::npos || valid_utf8_length(text) != text.size()) {
    return Error{Code::kInvalid,
                 fmt::format("{} is not a text file, wanted: lines of name = value", name)};
  }
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  ConfigReader reader(name, command);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    Result<Ok> read = reader.read_line(text.substr(0, end));
    if (!read) return read.error();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return reader.take();
}

Result<std::vector<Setting>> read_config_file(const std::string& path, const Command& command) {
  Result<std::string> text = read_file(path, kMaxConfigBytes);
  if (!text) {
    return Error{text.error().code, fmt::format("configuration file: {}", text.error().message)};
  }
  return parse_config_file(*text, path, command);
}

}  // namespace minim
