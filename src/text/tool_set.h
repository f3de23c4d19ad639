// The tools that a request offers to the model.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
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
  // the bare function objects, whose schema may also be called "input_schema"; null and [] mean
  // none. kInvalid names the place and what was found there ("tools[2].function.name is missing");
  // kUnsupported a tool that is no function.
  static Result<ToolSet> parse(const Json& tools);

  std::span<const Tool> tools() const { return tools_; }
  bool empty() const { return tools_.empty(); }
  const Tool* find(std::string_view name) const;  // of equal names the first; nullptr: unknown

 private:
  std::vector<Tool> tools_;
  std::unordered_map<std::string, size_t> index_;  // by name, of equal names the first
};

}  // namespace minim
