// A schema is walked depth first with "$ref" and "anyOf" counted alike, at most 32 deep, so that
// cycles end. A pair of schema and depth is visited once: a second visit could only add what the
// first has added, and without that rule two references to the root would double at every step.
#include "text/value_schema.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "text/python_repr.h"

namespace minim {
namespace {

constexpr int kMaxDepth = 32;
constexpr size_t kMaxVisits = 4096;      // of schemas within schemas, for one value
constexpr size_t kMaxRemembered = 1024;  // flattened schemas; then the memory starts anew
constexpr size_t kSmallObject = 8;       // members; below, comparing is faster than hashing

std::string lower_trimmed(std::string text) {
  constexpr const char* kSpace = " \t\n\r\f\v";
  text.erase(0, text.find_first_not_of(kSpace));
  text.erase(text.find_last_not_of(kSpace) + 1);
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

// Clients write the types of their own languages.
JsonType type_of_word(const std::string& word) {
  const std::string name = lower_trimmed(word);
  const auto is_one_of = [&](std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), name) != words.end();
  };
  const auto begins_with = [&](std::initializer_list<std::string_view> words) {
    return std::any_of(words.begin(), words.end(),
                       [&](std::string_view start) { return name.starts_with(start); });
  };
  if (is_one_of({"string", "str", "text", "varchar", "char", "enum"})) return JsonType::kString;
  if (begins_with({"int", "uint"}) || is_one_of({"long", "short", "unsigned"})) {
    return JsonType::kInteger;
  }
  if (begins_with({"num", "float"}) || is_one_of({"double", "decimal"})) return JsonType::kNumber;
  if (is_one_of({"boolean", "bool", "binary"})) return JsonType::kBoolean;
  if (begins_with({"dict"}) || is_one_of({"object", "map"})) return JsonType::kObject;
  if (begins_with({"list"}) || is_one_of({"array", "arr", "sequence", "tuple", "set"})) {
    return JsonType::kArray;
  }
  if (is_one_of({"null", "none"})) return JsonType::kNull;
  return JsonType::kString;
}

JsonType type_of_name(const Json& name) {
  if (name.is_null()) return JsonType::kNull;
  return name.is_string() ? type_of_word(name.get_ref<const std::string&>()) : JsonType::kString;
}

JsonType type_of_value(const Json& value) {
  if (value.is_null()) return JsonType::kNull;
  if (value.is_boolean()) return JsonType::kBoolean;
  if (value.is_number_float()) return JsonType::kNumber;
  if (value.is_number()) return JsonType::kInteger;
  if (value.is_array()) return JsonType::kArray;
  return value.is_object() ? JsonType::kObject : JsonType::kString;
}

std::string hex_decoded(std::string_view text) {
  std::string out;
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto digit = [&](size_t at) {
    return at < text.size() ? kDigits.find(lower_trimmed(std::string(1, text[at])))
                            : std::string_view::npos;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t high = digit(i + 1), low = digit(i + 2);
    const bool escape = text[i] == '%' && high < 16 && low < 16;
    out += escape ? static_cast<char>(high * 16 + low) : text[i];
    i += escape ? 2 : 0;
  }
  return out;
}

std::string pointer_key(std::string_view part) {
  std::string key;
  for (size_t i = 0; i < part.size(); ++i) {
    const bool escape =
        part[i] == '~' && i + 1 < part.size() && (part[i + 1] == '0' || part[i + 1] == '1');
    key += escape ? (part[i + 1] == '0' ? '~' : '/') : part[i];
    i += escape ? 1 : 0;
  }
  return key;
}

std::optional<size_t> array_index(std::string_view key) {
  if (key.empty() || key.size() > 9) return std::nullopt;
  size_t index = 0;
  for (const char c : key) {
    if (c < '0' || c > '9') return std::nullopt;
    index = index * 10 + static_cast<size_t>(c - '0');
  }
  return index;
}

}  // namespace

bool ValueSchema::allows(JsonType type) const {
  return std::find(types.begin(), types.end(), type) != types.end();
}

bool ValueSchema::streams() const {
  const auto first = std::find_if(types.begin(), types.end(),
                                  [](JsonType type) { return type != JsonType::kNull; });
  if (first == types.end() || *first != JsonType::kString) return false;
  return std::all_of(members.begin(), members.end(),
                     [](const auto& set) { return set->scalars.empty(); });
}

bool ValueSchema::may_have_children() const {
  return unknown() || ((allows(JsonType::kObject) || allows(JsonType::kArray)) && !streams());
}

bool ValueSchema::has_string(const std::string& text) const {
  return std::any_of(members.begin(), members.end(),
                     [&](const auto& set) { return set->strings.contains(text); });
}

bool ValueSchema::has_scalar(const std::string& text) const {
  return std::any_of(members.begin(), members.end(),
                     [&](const auto& set) { return set->scalars.contains(text); });
}

class SchemaReader::Flattening {
 public:
  Flattening(SchemaReader& reader, const Json& root) : reader_(reader), root_(root) {}

  void visit(const Json& schema, int depth) {
    if (!schema.is_object() || depth > kMaxDepth) return;
    if (visited_.size() >= kMaxVisits || !visited_.emplace(&schema, depth).second) return;
    const Json* reference = reader_.member(schema, "$ref");
    if (reference != nullptr && reference->is_string()) {
      const Json* target = reader_.follow(reference->get_ref<const std::string&>(), root_);
      if (target != nullptr) visit(*target, depth + 1);
      return;
    }
    const std::shared_ptr<const MemberSet> members = reader_.member_set(schema);
    if (members != nullptr) out_.members.push_back(members);
    const Json* type = reader_.member(schema, "type");
    if (type != nullptr && !type->is_null()) {
      for_each_type(*type, [&](const Json& name) { add(type_of_name(name), schema); });
    } else if (const Json* values = listed_values(schema)) {
      for (const Json& value : *values) add(type_of_value(value), schema);
    } else if (const Json* value = reader_.member(schema, "const")) {
      add(type_of_value(*value), schema);
    } else if (!visit_alternatives(schema, depth)) {
      add_by_keywords(schema);
    }
  }

  ValueSchema take() { return std::move(out_); }

 private:
  template <typename F>
  static void for_each_type(const Json& type, const F& use) {
    if (!type.is_array()) return use(type);
    for (const Json& name : type) use(name);
  }

  const Json* listed_values(const Json& schema) const {
    const Json* values = reader_.member(schema, "enum");
    return values != nullptr && values->is_array() && !values->empty() ? values : nullptr;
  }

  bool visit_alternatives(const Json& schema, int depth) {
    bool any = false;
    for (const char* keyword : {"anyOf", "oneOf", "allOf"}) {
      const Json* list = reader_.member(schema, keyword);
      if (list == nullptr || !list->is_array()) continue;
      any = true;
      for (const Json& alternative : *list) visit(alternative, depth + 1);
    }
    return any;
  }

  void add_by_keywords(const Json& schema) {
    const auto has = [&](const char* key) { return reader_.member(schema, key) != nullptr; };
    if (has("properties") || has("additionalProperties")) {
      add(JsonType::kObject, schema);
    } else if (has("items") || has("prefixItems")) {
      add(JsonType::kArray, schema);
    }
  }

  void add(JsonType type, const Json& schema) {
    if (!out_.allows(type)) out_.types.push_back(type);
    std::vector<const Json*>* list = type == JsonType::kObject  ? &out_.objects
                                     : type == JsonType::kArray ? &out_.arrays
                                                                : nullptr;
    if (list != nullptr && (list->empty() || list->back() != &schema)) list->push_back(&schema);
  }

  SchemaReader& reader_;
  const Json& root_;
  ValueSchema out_;
  std::set<std::pair<const Json*, int>> visited_;
};

std::shared_ptr<const ValueSchema> SchemaReader::read(const Json* schema, const Json* root) {
  if (schema == nullptr) return std::make_shared<const ValueSchema>();
  const auto known = schemas_.find(schema);
  if (known != schemas_.end()) return known->second;
  Flattening flattening(*this, *root);
  flattening.visit(*schema, 0);
  auto flat = std::make_shared<const ValueSchema>(flattening.take());
  if (schemas_.size() >= kMaxRemembered) schemas_.clear();
  schemas_.emplace(schema, flat);
  return flat;
}

const Json* SchemaReader::property(const Json& object_schema, std::string_view name) {
  const Json* properties = member(object_schema, "properties");
  const Json* found = properties == nullptr ? nullptr : member(*properties, name);
  if (found != nullptr) return found;
  const Json* other = member(object_schema, "additionalProperties");
  return other != nullptr && other->is_object() ? other : nullptr;
}

bool SchemaReader::has_property(const Json& object_schema, std::string_view name) {
  const Json* properties = member(object_schema, "properties");
  return properties != nullptr && member(*properties, name) != nullptr;
}

const Json* SchemaReader::item(const Json& array_schema, size_t index) {
  const auto prefix = array_schema.find("prefixItems");
  if (prefix != array_schema.end() && prefix->is_array() && index < prefix->size()) {
    return &(*prefix)[index];
  }
  const auto items = array_schema.find("items");
  if (items == array_schema.end() || !items->is_array()) {
    return items == array_schema.end() ? nullptr : &*items;
  }
  if (index < items->size()) return &(*items)[index];
  const auto rest = array_schema.find("additionalItems");
  return rest == array_schema.end() ? nullptr : &*rest;
}

const Json* SchemaReader::member(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto& members = object.get_ref<const Json::object_t&>();
  if (members.size() <= kSmallObject) {
    for (const auto& [name, value] : members) {
      if (name == key) return &value;
    }
    return nullptr;
  }
  auto [index, fresh] = indexes_.try_emplace(&object);
  if (fresh) {
    for (const auto& [name, value] : members) index->second.emplace(name, &value);
  }
  const auto found = index->second.find(key);
  return found == index->second.end() ? nullptr : found->second;
}

// A JSON pointer into `root`; nullptr when it leads nowhere, or out of the document.
const Json* SchemaReader::follow(std::string_view reference, const Json& root) {
  if (!reference.starts_with('#')) return nullptr;
  const Json* at = &root;
  for (reference.remove_prefix(1); !reference.empty();) {
    const size_t end = std::min(reference.find('/'), reference.size());
    const std::string_view part = reference.substr(0, end);
    reference.remove_prefix(std::min(end + 1, reference.size()));
    if (part.empty()) continue;
    const std::string key = pointer_key(part);
    const Json* next = member(*at, key);
    if (next == nullptr) next = member(*at, pointer_key(hex_decoded(part)));
    const std::optional<size_t> index = array_index(key);
    if (at->is_array() && index && *index < at->size()) next = &(*at)[*index];
    if (next == nullptr) return nullptr;
    at = next;
  }
  return at;
}

std::shared_ptr<const MemberSet> SchemaReader::member_set(const Json& schema) {
  const Json* list = member(schema, "enum");
  const bool is_enum = list != nullptr && list->is_array();
  const Json* values = is_enum ? list : member(schema, "const");
  if (values == nullptr) return nullptr;
  std::shared_ptr<const MemberSet>& known = member_sets_[values];
  if (known != nullptr) return known;
  auto set = std::make_shared<MemberSet>();
  const auto add = [&](const Json& value) {
    if (value.is_string()) set->strings.insert(value.get<std::string>());
    if (value.is_number_float()) {
      set->scalars.insert(json_float(value.get<double>()));
    } else if (value.is_number() || value.is_boolean()) {
      set->scalars.insert(dump_json(value));
    }
  };
  if (is_enum) {
    for (const Json& value : *values) add(value);
  } else {
    add(*values);
  }
  known = set;
  return known;
}

}  // namespace minim
