// JSON pointers, step by step. A schema with an "$id" of its own is another document to references
// inside it, so whatever leads into one or out of one is refused: following it as if the "$id" were
// not there would take another schema than the author meant.
#include "text/json_schema_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "text/json_schema_nodes.h"

namespace minim {
namespace {

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const std::string_view hex = text.substr(i + 1, 2);
    if (hex.size() < 2 || hex.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
      return std::nullopt;
    }
    out += static_cast<char>(std::stoi(std::string(hex), nullptr, 16));
    i += 2;
  }
  return out;
}

bool has_id(const Json& schema) {
  const auto id = schema.is_object() ? schema.find("$id") : schema.end();
  return id != schema.end() && id->is_string();
}

const Json* step(const Json& at, std::string token, std::string& place) {
  place += "/" + token;
  for (size_t i = 0; (i = token.find('~', i)) != std::string::npos; ++i) {
    const std::string two = token.substr(i, 2);
    if (two != "~0" && two != "~1") return nullptr;
    token.replace(i, 2, two == "~0" ? "~" : "/");
  }
  if (at.is_object()) {
    const auto found = at.find(token);
    return found == at.end() ? nullptr : &*found;
  }
  if (!at.is_array() || token.empty() || token.size() > 6 ||
      token.find_first_not_of("0123456789") != std::string::npos ||
      (token.size() > 1 && token[0] == '0')) {
    return nullptr;
  }
  const size_t index = std::stoul(token);
  return index < at.size() ? &at[index] : nullptr;
}

// References in there are relative to that schema, not to the whole.
bool inside_own_id(const Json& root, const std::string& place) {
  const Json* at = &root;
  std::string so_far;
  for (size_t i = 1; i <= place.size() && !place.empty() && at != nullptr;) {
    const size_t end = std::min(place.find('/', i), place.size());
    at = step(*at, place.substr(i, end - i), so_far);
    if (at != nullptr && has_id(*at)) return true;
    i = end + 1;
  }
  return false;
}

// The part behind '#', with it; all of the reference if it is another document's.
std::string_view fragment_of(const Json& root, const std::string& reference) {
  std::string_view fragment = reference;
  const auto id = root.is_object() ? root.find("$id") : root.end();
  if (id != root.end() && id->is_string() && !id->get_ref<const std::string&>().empty() &&
      reference.starts_with(id->get_ref<const std::string&>())) {
    fragment.remove_prefix(id->get_ref<const std::string&>().size());
    if (fragment.empty()) fragment = "#";
  }
  return fragment;
}

}  // namespace

Result<SchemaTarget> follow_reference(const Json& root, const std::string& place,
                                      const std::string& reference) {
  const auto refused = [&](const char* why) {
    const std::string quoted = dump_json(Json(reference));
    return schema_error(Code::kUnsupported, "$ref", place, fmt::format("{} {}", quoted, why));
  };
  if (inside_own_id(root, place)) {
    return schema_error(Code::kUnsupported, "$ref", place,
                        "inside a schema with an $id of its own it is not followed");
  }
  const std::string_view fragment = fragment_of(root, reference);
  if (!fragment.starts_with('#')) return refused("is outside this schema; only #/… is followed");
  const std::optional<std::string> pointer = percent_decoded(fragment.substr(1));
  if (!pointer || (!pointer->empty() && (*pointer)[0] != '/')) return refused("is no JSON pointer");
  SchemaTarget target{&root, ""};
  for (size_t i = 1; i <= pointer->size() && !pointer->empty();) {
    if (target.schema != &root && has_id(*target.schema)) {
      return refused("leads through a schema with an $id");
    }
    const size_t end = std::min(pointer->find('/', i), pointer->size());
    target.schema = step(*target.schema, pointer->substr(i, end - i), target.place);
    if (target.schema == nullptr) return refused("leads nowhere");
    i = end + 1;
  }
  if (!target.schema->is_object() && !target.schema->is_boolean()) {
    return refused("leads to no schema");
  }
  return target;
}

}  // namespace minim
