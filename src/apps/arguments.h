// The arguments of one sub-command: flag beats environment variable beats configuration file, all
// checked against the option table.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "apps/command.h"
#include "base/result.h"

namespace minim {

class Arguments {
 public:
  // `words` is what follows the sub-command. Errors are usage errors (exit code 2).
  static Result<Arguments> parse(const Command& command, const std::vector<std::string>& words);

  // All getters name a flag of the table, of the kind that they return; CHECK otherwise.
  bool given(std::string_view name) const;
  bool on(std::string_view name) const;                  // kSwitch; false unless given
  const std::string& text(std::string_view name) const;  // kText, kChoice; empty unless given
  int64_t integer(std::string_view name, int64_t fallback) const;
  double number(std::string_view name, double fallback) const;
  const std::vector<std::string>& words() const { return words_; }  // what is not a flag
  bool help() const { return help_; }

 private:
  std::map<std::string, std::string, std::less<>> values_;
  std::vector<std::string> words_;
  bool help_ = false;
};

}  // namespace minim
