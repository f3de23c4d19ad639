// The configuration file: TOML of the plainest kind, checked against the tables of flags and
// commands.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/command.h"
#include "apps/options.h"
#include "base/result.h"

namespace minim {

struct Setting {
  const OptionSpec* option;
  std::string value;
  std::string source;  // for messages: "config.toml line 3: threads"
};

// The settings of a file that concern `command`, those of its own section behind the general ones.
// Lines are: name = value, [command], # comment, or blank. A name is that of a flag that may be a
// setting; a value is "quoted" with JSON's escapes, 'quoted' as it is, or one word. kInvalid names
// the line: another form, an unknown name or section, a setting that the section's command has not,
// or one that comes twice. The value itself is for the caller to check.
Result<std::vector<Setting>> read_config_file(const std::string& path, const Command& command);
// The same from memory; messages begin with `name`.
Result<std::vector<Setting>> parse_config_file(std::string_view text, const std::string& name,
                                               const Command& command);

}  // namespace minim
