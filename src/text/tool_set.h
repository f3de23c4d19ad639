// The tools that a request offers to the model.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace minim {

struct Tool {
  std::string name;
  Json parameters;      // a JSON schema; null if the tool declares none
  bool strict = false;  // arguments must satisfy the schema
};

class ToolSet {
 public:
  // Reads the "tools" of a chat request: a list of {"type": "function", "function": {...}}, or of
  // the bare function objects; null and [] mean none. kInvalid names the place and what was found
  // there ("tools[2].function.name: ...").
  static Result<ToolSet> parse(const Json& tools);

  std::span<const Tool> tools() const { return tools_; }
  bool empty() const { return tools_.empty(); }
  const Tool* find(std::string_view name) const;  // of equal names the first; nullptr: unknown

 private:
  std::vector<Tool> tools_;
};

}  // namespace minim
