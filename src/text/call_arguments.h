// The arguments of one tool call: elements in, JSON text out.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/json.h"
#include "text/value_schema.h"

namespace minim {

// Every method appends to `out` what is certain now; all of it together is one JSON object once
// end() was called, and a prefix of one before.
class CallArguments {
 public:
  // `parameters`: the tool's schema, nullptr for none; it and the reader must outlive this.
  CallArguments(SchemaReader& reader, const Json* parameters);

  // Inside a parameter; its own element is the first of open_names().
  bool in_parameter() const { return !open_.empty(); }
  std::vector<std::string_view> open_names() const;
  // Whether an opening tag means an element here; otherwise it is text.
  bool may_open() const;

  // A parameter, or inside one a child element. Only where may_open().
  void open(const std::string& name, std::string& out);
  // Text inside a parameter.
  void text(std::string_view text, std::string& out);
  // Closes elements until `level` are open.
  void close_to(size_t level, std::string& out);
  // Closes what is open, and the object.
  void end(std::string& out);

 private:
  enum class Kind : uint8_t { kLeaf, kObject, kArray, kGuess };  // kGuess: no schema says which
  struct Child {
    std::string name, value;  // value: JSON text
  };
  struct Element {
    std::string name;
    std::shared_ptr<const ValueSchema> schema;
    Kind kind = Kind::kLeaf;
    std::string text = {};            // of a leaf all of it; else what stands beside the children
    bool only_space = true;           // text
    const Json* container = nullptr;  // the object or array schema of the children
    std::vector<Child> children = {};
  };

  std::shared_ptr<const ValueSchema> read(const Json* schema);
  const Json* parameter_schema(const std::string& name);
  const Json* child_schema(const Element& parent, const std::string& name);
  void make_container(Element& element, const std::string& first_child);
  static std::string element_value(const Element& element);
  static std::string object_value(const Element& element);
  void close(std::string& out);
  void put(std::string_view text, std::string& out) const;
  void put_key(std::string_view name, std::string& out);
  void begin_string(std::string& out);

  SchemaReader* reader_;
  const Json* parameters_;
  std::vector<Element> open_;
  std::unordered_set<std::string> names_;  // of the parameters so far
  bool first_ = true;                      // no parameter was sent yet
  bool repeated_ = false;                  // the open parameter was there before: it is dropped
  bool streaming_ = false;                 // the open parameter is a string that is being sent
};

}  // namespace minim
