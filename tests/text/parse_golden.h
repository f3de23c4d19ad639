// The golden vectors of what a model writes, read as they are.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/tool_set.h"

namespace minim {

inline std::string parse_golden(const std::string& file) {
  return std::string(MINIM_TEST_DATA) + "/text/parse/" + file;
}

// The objects of a JSON Lines file; `expected` guards against a cut-off file that would test
// nothing.
inline std::vector<Json> parse_vectors(const std::string& file, size_t expected) {
  std::vector<Json> vectors;
  const Result<std::string> text = read_file(parse_golden(file));
  EXPECT_TRUE(text) << text.error().message;
  if (!text) return vectors;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    Result<Json> vector = parse_json(line, file);
    EXPECT_TRUE(vector) << vector.error().message;
    if (vector) vectors.push_back(*std::move(vector));
  }
  EXPECT_EQ(vectors.size(), expected) << file;
  return vectors;
}

using ToolSets = std::map<std::string, std::shared_ptr<const ToolSet>>;

inline ToolSets golden_tool_sets() {
  ToolSets sets;
  const Result<Json> file = read_json_file(parse_golden("tools.json"));
  EXPECT_TRUE(file) << file.error().message;
  if (!file) return sets;
  for (const auto& [name, tools] : file->items()) {
    Result<ToolSet> set = ToolSet::parse(tools);
    EXPECT_TRUE(set) << set.error().message;
    if (set) sets[name] = std::make_shared<const ToolSet>(*std::move(set));
  }
  return sets;
}

}  // namespace minim
