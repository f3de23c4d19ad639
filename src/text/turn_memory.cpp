// Replies are keyed by the SHA-256 of a canonical form of what they say; in it every text stands
// behind its length, so that different replies have different forms, and nobody can make two
// digests collide: a wrong replay would put words into a conversation that were never there.
// (Keeping the texts instead would double the memory for the same certainty.) The list is in order
// of use; the map finds places in it.
#include "text/turn_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "base/sha256.h"

namespace minim {
namespace {

using Object = Json::object_t;
using Array = Json::array_t;

void append_text(std::string_view text, std::string* out) {
  fmt::format_to(std::back_inserter(*out), "\"{}:", text.size());
  *out += text;
}

// A whole number has one form, however it was written.
void append_number(const Json& value, std::string* out) {
  constexpr double k63 = 9223372036854775808.0;
  if (value.is_number_unsigned())
    return void(fmt::format_to(std::back_inserter(*out), "#{};", value.get<uint64_t>()));
  if (value.is_number_integer())
    return void(fmt::format_to(std::back_inserter(*out), "#{};", value.get<int64_t>()));
  const double real = value.get<double>();
  if (real == std::trunc(real) && std::fabs(real) < k63)
    fmt::format_to(std::back_inserter(*out), "#{};", static_cast<int64_t>(real));
  else if (real == std::trunc(real) && real > 0 && real < 2 * k63)
    fmt::format_to(std::back_inserter(*out), "#{};", static_cast<uint64_t>(real));
  else
    fmt::format_to(std::back_inserter(*out), "#{};", real);  // the shortest digits
}

// False for what nests too deeply.
bool append_value(const Json& value, int depth, std::string* out) {
  if (depth > kMaxJsonDepth) return false;
  if (value.is_object()) {
    std::vector<const Object::value_type*> members;
    for (const auto& entry : value.get_ref<const Object&>()) members.push_back(&entry);
    std::sort(members.begin(), members.end(),
              [](const auto* a, const auto* b) { return a->first < b->first; });
    *out += '{';
    for (const auto* entry : members) {
      append_text(entry->first, out);
      if (!append_value(entry->second, depth + 1, out)) return false;
    }
    *out += '}';
  } else if (value.is_array()) {
    *out += '[';
    for (const Json& item : value.get_ref<const Array&>()) {
      if (!append_value(item, depth + 1, out)) return false;
    }
    *out += ']';
  } else if (value.is_string()) {
    append_text(value.get_ref<const std::string&>(), out);
  } else if (value.is_number()) {
    append_number(value, out);
  } else {
    *out += value.is_boolean() ? (value.get<bool>() ? 't' : 'f') : 'n';
  }
  return true;
}

// Arguments as JSON text; what is no JSON stands for itself.
bool append_arguments(const std::string& text, std::string* out) {
  if (text.empty()) return append_value(Json::object(), 0, out);
  const Result<Json> value = parse_json(text, "arguments");
  if (value) return append_value(*value, 0, out);
  *out += '!';
  append_text(text, out);
  return true;
}

const Json* present(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

// The text of "content"; nothing where it holds more than text.
std::optional<std::string> content_of(const Json& message) {
  const Json* content = present(message, "content");
  if (!content) return "";
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) return std::nullopt;
  std::string out;
  for (const Json& item : content->get_ref<const Array&>()) {
    if (item.is_string()) {
      out += item.get_ref<const std::string&>();
      continue;
    }
    if (!item.is_object()) return std::nullopt;
    const Json* type = present(item, "type");
    const Json* text = present(item, "text");
    if (!type || *type != "text" || !text || !text->is_string()) return std::nullopt;
    out += text->get_ref<const std::string&>();
  }
  return out;
}

std::optional<std::string> reasoning_of(const Json& message) {
  std::string out;
  for (const char* name : {"reasoning_content", "reasoning"}) {
    const Json* said = present(message, name);
    if (!said) continue;
    if (!said->is_string()) return std::nullopt;
    const auto& text = said->get_ref<const std::string&>();
    if (!out.empty() && !text.empty() && text != out) return std::nullopt;
    if (out.empty()) out = text;
  }
  return out;
}

bool append_call(const Json& item, std::string* out) {
  if (!item.is_object()) return false;
  const Json* function = present(item, "function");
  const Json& call = function ? *function : item;
  if (!call.is_object()) return false;
  const Json* name = present(call, "name");
  const Json* arguments = present(call, "arguments");
  if (!name || !name->is_string()) return false;
  append_text(name->get_ref<const std::string&>(), out);
  if (!arguments) return append_arguments("", out);
  if (arguments->is_string()) return append_arguments(arguments->get<std::string>(), out);
  return arguments->is_object() && append_value(*arguments, 0, out);
}

std::string digest(std::string_view canonical) {
  const Sha256::Digest bytes = Sha256::of(canonical);
  return std::string(bytes.begin(), bytes.end());
}

std::optional<std::string> key_of(const ParsedOutput& reply) {
  std::string out;
  append_text(reply.reasoning.value_or(""), &out);
  append_text(reply.content.value_or(""), &out);
  for (const ParsedOutput::Call& call : reply.calls) {
    append_text(call.name, &out);
    if (!append_arguments(call.arguments, &out)) return std::nullopt;
  }
  return digest(out);
}

std::optional<std::string> key_of(const Json& message) {
  if (!message.is_object() || present(message, "function_call")) return std::nullopt;
  const std::optional<std::string> reasoning = reasoning_of(message);
  const std::optional<std::string> content = content_of(message);
  const Json* calls = present(message, "tool_calls");
  if (!reasoning || !content || (calls && !calls->is_array())) return std::nullopt;
  std::string out;
  append_text(*reasoning, &out);
  append_text(*content, &out);
  if (!calls) return digest(out);
  for (const Json& call : calls->get_ref<const Array&>()) {
    if (!append_call(call, &out)) return std::nullopt;
  }
  return digest(out);
}

bool ended_by_itself(const ParsedOutput& reply) {
  return (reply.finish == "stop" || reply.finish == "tool_calls") &&
         std::all_of(reply.calls.begin(), reply.calls.end(),
                     [](const ParsedOutput::Call& call) { return call.complete; });
}

}  // namespace

void TurnMemory::drop(Entries::iterator entry) {
  n_tokens_ -= entry->tokens->size();
  index_.erase(entry->key);
  entries_.erase(entry);
}

void TurnMemory::remember(const ParsedOutput& reply, std::vector<TokenId> tokens) {
  if (!ended_by_itself(reply) || tokens.size() > max_tokens_) return;
  std::optional<std::string> key = key_of(reply);
  if (!key) return;
  auto kept = std::make_shared<const std::vector<TokenId>>(std::move(tokens));
  const std::lock_guard lock(mutex_);
  if (const auto known = index_.find(*key); known != index_.end()) drop(known->second);
  while (n_tokens_ + kept->size() > max_tokens_) drop(std::prev(entries_.end()));
  n_tokens_ += kept->size();
  entries_.push_front(Entry{*key, std::move(kept)});
  index_.emplace(*std::move(key), entries_.begin());
}

std::shared_ptr<const std::vector<TokenId>> TurnMemory::find(const Json& message) const {
  const std::optional<std::string> key = key_of(message);
  if (!key) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto known = index_.find(*key);
  if (known == index_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, known->second);
  return known->second->tokens;
}

size_t TurnMemory::tokens() const {
  const std::lock_guard lock(mutex_);
  return n_tokens_;
}

std::vector<TokenId> turn_tokens(const MarkerIds& markers, std::span<const TokenId> prompt,
                                 std::span<const TokenId> generated) {
  std::vector<TokenId> out;
  if (!prompt.empty() && (prompt.back() == markers.think || prompt.back() == markers.end_think))
    out.push_back(prompt.back());
  out.insert(out.end(), generated.begin(), generated.end());
  return out;
}

}  // namespace minim
