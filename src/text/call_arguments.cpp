// A stack of open elements. A parameter that can only be a string is sent while it is produced;
// every other value becomes text when its element closes and moves into its parent, so a byte is
// copied once a level, and there are at most 64. Sending containers piece by piece would be wrong:
// whether an element is an object or an array, or a key comes twice, is known only at its end.
#include "text/call_arguments.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "text/json_text.h"
#include "text/output_tags.h"
#include "text/value_text.h"

namespace minim {
namespace {

constexpr std::string_view kItem = "item";  // the template writes lists with this tag

}  // namespace

CallArguments::CallArguments(SchemaReader& reader, const Json* parameters)
    : reader_(&reader), parameters_(parameters) {}

std::vector<std::string_view> CallArguments::open_names() const {
  std::vector<std::string_view> names;
  for (const Element& element : open_) names.push_back(element.name);
  return names;
}

bool CallArguments::may_open() const {
  if (open_.empty()) return true;
  if (open_.size() >= TagScanner::kMaxElements) return false;
  const Element& top = open_.back();
  if (top.kind != Kind::kLeaf) return true;
  return top.schema->may_have_children() && top.only_space && !streaming_;
}

// ---- schemas

std::shared_ptr<const ValueSchema> CallArguments::read(const Json* schema) {
  return reader_->read(schema, parameters_);
}

const Json* CallArguments::parameter_schema(const std::string& name) {
  if (parameters_ == nullptr) return nullptr;
  const auto root = read(parameters_);
  return root->objects.empty() ? nullptr : reader_->property(*root->objects[0], name);
}

const Json* CallArguments::child_schema(const Element& parent, const std::string& name) {
  if (parent.container == nullptr) return nullptr;
  if (parent.kind == Kind::kArray)
    return SchemaReader::item(*parent.container, parent.children.size());
  return reader_->property(*parent.container, name);
}

void CallArguments::make_container(Element& element, const std::string& first_child) {
  element.text.clear();  // white space in front of the first child
  const ValueSchema& schema = *element.schema;
  if (!schema.arrays.empty() && (schema.objects.empty() || first_child == kItem)) {
    element.kind = Kind::kArray;
    element.container = schema.arrays[0];
  } else if (!schema.objects.empty()) {
    const auto fits = [&](const Json* object) {
      return reader_->has_property(*object, first_child);
    };
    const auto found = std::find_if(schema.objects.begin(), schema.objects.end(), fits);
    element.kind = Kind::kObject;
    element.container = found == schema.objects.end() ? schema.objects[0] : *found;
  } else {
    element.kind = Kind::kGuess;
  }
}

// ---- elements

void CallArguments::open(const std::string& name, std::string& out) {
  DCHECK(may_open());
  if (!open_.empty()) {
    Element& parent = open_.back();
    if (parent.kind == Kind::kLeaf) make_container(parent, name);
    const Json* schema = child_schema(parent, name);
    open_.push_back({.name = name, .schema = read(schema)});
    return;
  }
  open_.push_back({.name = name, .schema = read(parameter_schema(name))});
  repeated_ = !names_.insert(name).second;
  const ValueSchema& schema = *open_[0].schema;
  if (schema.streams() && !schema.allows(JsonType::kNull)) begin_string(out);
}

void CallArguments::text(std::string_view text, std::string& out) {
  if (streaming_) {
    std::string escaped;
    append_json_chars(escaped, text);
    return put(escaped, out);
  }
  Element& top = open_.back();
  top.only_space = top.only_space && is_markup_space(text);
  top.text += text;
  if (open_.size() > 1 || top.kind != Kind::kLeaf) return;
  const bool certain =
      top.schema->unknown() ? !top.only_space : top.schema->streams() && !may_become_null(top.text);
  if (certain) begin_string(out);
}

void CallArguments::close_to(size_t level, std::string& out) {
  while (open_.size() > level) close(out);
}

void CallArguments::end(std::string& out) {
  close_to(0, out);
  out += first_ ? "{}" : "}";
}

void CallArguments::close(std::string& out) {
  Element element = std::move(open_.back());
  if (open_.size() > 1) {
    open_.pop_back();
    open_.back().children.push_back({std::move(element.name), element_value(element)});
    return;
  }
  if (streaming_) {
    put("\"", out);
  } else {
    put_key(element.name, out);
    put(element_value(element), out);
  }
  open_.clear();
  streaming_ = false;
}

std::string CallArguments::element_value(const Element& element) {
  if (element.kind == Kind::kLeaf) return value_text(element.text, *element.schema);
  const bool items = std::all_of(element.children.begin(), element.children.end(),
                                 [](const Child& child) { return child.name == kItem; });
  const bool array =
      element.kind == Kind::kArray || (element.kind == Kind::kGuess && items && element.only_space);
  if (!array) return object_value(element);
  std::string out = "[";
  for (const Child& child : element.children) {
    if (out.size() > 1) out += ", ";
    out += child.value;
  }
  return out + "]";
}

// Keys that repeat collect to an array at the first one's place.
std::string CallArguments::object_value(const Element& element) {
  struct Member {
    const std::string* name;
    std::vector<const std::string*> values;
  };
  std::vector<Member> members;
  std::unordered_map<std::string_view, size_t> places;
  const auto add = [&](const std::string& name, const std::string& value) {
    const auto place = places.emplace(name, members.size());
    if (place.second) members.push_back({&name, {}});
    members[place.first->second].values.push_back(&value);
  };
  for (const Child& child : element.children) add(child.name, child.value);
  std::string beside, beside_name = "$text";
  if (!element.only_space) {
    append_json_string(beside, trim_markup_space(element.text));
    while (places.contains(beside_name)) beside_name.insert(0, 1, '$');
    add(beside_name, beside);
  }
  std::string out = "{";
  for (const Member& member : members) {
    if (out.size() > 1) out += ", ";
    append_json_string(out, *member.name);
    out += ": ";
    if (member.values.size() == 1) {
      out += *member.values[0];
      continue;
    }
    for (size_t i = 0; i < member.values.size(); ++i) {
      out += i == 0 ? "[" : ", ";
      out += *member.values[i];
    }
    out += ']';
  }
  return out + "}";
}

// ---- output

void CallArguments::put(std::string_view text, std::string& out) const {
  if (!repeated_) out += text;
}

void CallArguments::put_key(std::string_view name, std::string& out) {
  if (repeated_) return;
  out += first_ ? "{" : ", ";
  first_ = false;
  append_json_string(out, name);
  out += ": ";
}

void CallArguments::begin_string(std::string& out) {
  put_key(open_[0].name, out);
  streaming_ = true;
  std::string start = "\"";
  append_json_chars(start, std::exchange(open_[0].text, {}));
  put(start, out);
}

}  // namespace minim
