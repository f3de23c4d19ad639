// Only what the parser and the grammar need is read; other members (descriptions, extensions of a
// client) are the template's business and pass unread.
#include "text/tool_set.h"

#include <fmt/format.h>

#include <utility>

namespace minim {
namespace {

// A value for a one-line message: short texts as they are, containers by kind and size.
std::string shown(const Json& value) {
  constexpr size_t kLongest = 40;
  if (value.is_structured()) {
    return fmt::format("an {} of {}", value.type_name(), value.size());
  }
  std::string text = dump_json(value);
  if (text.size() > kLongest)
    text = fmt::format("a {} of {} bytes", value.type_name(), text.size());
  return text;
}

Error wrong(const std::string& where, const Json* found, const char* wanted,
            Code code = Code::kInvalid) {
  if (found == nullptr) return {code, fmt::format("{} is missing, wanted: {}", where, wanted)};
  return {code, fmt::format("{} is {}, wanted: {}", where, shown(*found), wanted)};
}

// nullptr: absent or null.
const Json* member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Result<Tool> read_function(const Json& function, const std::string& where) {
  Tool tool;
  const Json* name = member(function, "name");
  if (name == nullptr || !name->is_string() || name->get_ref<const std::string&>().empty()) {
    return wrong(where + ".name", name, "the function's name, a string");
  }
  tool.name = name->get<std::string>();
  for (const char* key : {"input_schema", "parameters"}) {
    const Json* schema = member(function, key);
    if (schema == nullptr) continue;
    if (!schema->is_object()) return wrong(where + "." + key, schema, "a JSON schema, an object");
    tool.parameters = *schema;
  }
  if (const Json* strict = member(function, "strict")) {
    if (!strict->is_boolean()) return wrong(where + ".strict", strict, "true or false");
    tool.strict = strict->get<bool>();
  }
  return tool;
}

Result<Tool> read_tool(const Json& tool, const std::string& where) {
  if (!tool.is_object()) return wrong(where, &tool, "an object that describes a function");
  const Json* type = member(tool, "type");
  if (type != nullptr && *type != "function") {
    return wrong(where + ".type", type, "\"function\"", Code::kUnsupported);
  }
  if (!tool.contains("function")) return read_function(tool, where);
  const Json& function = tool["function"];
  if (!function.is_object()) {
    return wrong(where + ".function", &function, "an object with the function's name");
  }
  return read_function(function, where + ".function");
}

}  // namespace

Result<ToolSet> ToolSet::parse(const Json& tools) {
  ToolSet set;
  if (tools.is_null()) return set;
  if (!tools.is_array()) return wrong("tools", &tools, "a list of tools");
  for (const Json& element : tools) {
    Result<Tool> tool = read_tool(element, fmt::format("tools[{}]", set.tools_.size()));
    if (!tool) return tool.error();
    set.index_.emplace(tool->name, set.tools_.size());
    set.tools_.push_back(*std::move(tool));
  }
  return set;
}

const Tool* ToolSet::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &tools_[found->second];
}

}  // namespace minim
