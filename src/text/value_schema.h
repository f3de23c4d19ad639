// What the schema of a parameter says about the text in an element: docs/output.md, "Values".
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/json.h"

namespace minim {

enum class JsonType : uint8_t { kNull, kBoolean, kInteger, kNumber, kString, kObject, kArray };

// The members of one "enum", or the one of a "const".
struct MemberSet {
  std::unordered_set<std::string> strings;
  std::unordered_set<std::string> scalars;  // numbers and booleans, as JSON spells them
};

// A schema, flattened: its alternatives in the schema's order. Points into the schema.
struct ValueSchema {
  std::vector<JsonType> types;  // each once
  std::vector<std::shared_ptr<const MemberSet>> members;
  std::vector<const Json*> objects, arrays;  // the alternatives of these types

  bool allows(JsonType type) const;
  bool unknown() const { return types.empty(); }
  // The value can only be a string (or null): it may be sent while it is produced.
  bool streams() const;
  // Child elements may stand for the value.
  bool may_have_children() const;
  bool has_string(const std::string& text) const;
  bool has_scalar(const std::string& text) const;
};

// Reads schemas of one tool set and remembers what it read: a reply may ask for the same one many
// times, and a schema that somebody sent may be large, cyclic or both.
class SchemaReader {
 public:
  // What `schema` says; nullptr stands for no schema. `root` is the whole schema of the tool, where
  // "$ref" leads to, and holds `schema`; it must outlive the reader.
  std::shared_ptr<const ValueSchema> read(const Json* schema, const Json* root);

  // The schema of a property of an object; nullptr: none.
  const Json* property(const Json& object_schema, std::string_view name);
  bool has_property(const Json& object_schema, std::string_view name);
  // The schema of an element of an array; nullptr: none.
  static const Json* item(const Json& array_schema, size_t index);

 private:
  class Flattening;
  using Index = std::unordered_map<std::string_view, const Json*>;

  // The member of an object, found in constant time; nullptr: absent, or no object.
  const Json* member(const Json& object, std::string_view key);
  const Json* follow(std::string_view reference, const Json& root);
  std::shared_ptr<const MemberSet> member_set(const Json& schema);

  std::unordered_map<const Json*, std::shared_ptr<const ValueSchema>> schemas_;
  std::unordered_map<const Json*, Index> indexes_;
  std::unordered_map<const Json*, std::shared_ptr<const MemberSet>> member_sets_;
};

}  // namespace minim
