// Keys are those of the APIs and of the flags; null is as good as absent, as clients write it. A
// key that is not understood is refused and never passed over: an answer under other rules than
// were asked for is worse than none.
#include "apps/batch_fields.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

namespace minim {
namespace {

constexpr int64_t kMostCount = 2147483647;
constexpr std::array<const char*, 5> kFormats = {"json_schema", "json_object", "regex", "choice",
                                                 "grammar"};

Result<Ok> read_number(const JsonLine& line, const char* key, double& out) {
  const Json* found = member(line, key);
  if (found == nullptr) return Ok{};
  if (!found->is_number()) return wrong_member(line, key, "a number");
  out = found->get<double>();
  return Ok{};
}

template <typename T>
Result<Ok> read_count(const JsonLine& line, const char* key, int64_t low, int64_t high, T& out) {
  const Json* found = member(line, key);
  if (found == nullptr) return Ok{};
  // Beyond int64 only unsigned numbers go, and get() would wrap them.
  const bool fits =
      found->is_number_integer() &&
      (!found->is_number_unsigned() || found->get<uint64_t>() <= static_cast<uint64_t>(high)) &&
      found->get<int64_t>() >= low && found->get<int64_t>() <= high;
  if (!fits) return wrong_member(line, key, fmt::format("an integer from {} to {}", low, high));
  out = static_cast<T>(found->get<int64_t>());
  return Ok{};
}

Result<Ok> read_seed(const JsonLine& line, uint64_t& seed) {
  const Json* found = member(line, "seed");
  if (found == nullptr) return Ok{};
  if (!found->is_number_unsigned()) return wrong_member(line, "seed", "an integer from 0");
  seed = found->get<uint64_t>();
  return Ok{};
}

Result<Ok> read_ids(const JsonLine& line, const char* key, int vocab, std::vector<int32_t>& out) {
  if (member(line, key) == nullptr) return Ok{};
  Result<std::vector<int32_t>> ids = tokens_member(line, key, vocab, true);
  if (!ids) return ids.error();
  out.insert(out.end(), ids->begin(), ids->end());
  return Ok{};
}

// {"id": bias}: ids are keys, so they are texts.
Result<Ok> read_bias(const JsonLine& line, int vocab, SamplingParams& params) {
  const Json* found = member(line, "logit_bias");
  if (found == nullptr) return Ok{};
  constexpr const char* kWanted = "an object of token ids and numbers from -100 to 100";
  if (!found->is_object()) return wrong_member(line, "logit_bias", kWanted);
  for (const auto& [key, value] : found->items()) {
    int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    const bool is_id =
        error == std::errc() && end == key.data() + key.size() && id >= 0 && id < vocab;
    if (!is_id || !value.is_number() || !(std::abs(value.get<double>()) <= 100.0)) {
      return wrong_member(line, "logit_bias", kWanted);
    }
    params.logit_bias.emplace_back(id, static_cast<float>(value.get<double>()));
  }
  return Ok{};
}

// Texts or lists of ids. A text is a word as it stands at the start and behind a blank, which are
// different tokens.
Result<Ok> read_bad_words(const JsonLine& line, const Tokenizer& tokenizer, int vocab,
                          SamplingParams& params) {
  const Json* found = member(line, "bad_words");
  if (found == nullptr) return Ok{};
  constexpr const char* kWanted = "a list of texts or of lists of token ids, none empty";
  if (!found->is_array()) return wrong_member(line, "bad_words", kWanted);
  for (const Json& word : *found) {
    if (word.empty() || (word.is_string() && word.get_ref<const std::string&>().empty())) {
      return wrong_member(line, "bad_words", kWanted);
    }
    if (word.is_string()) {
      const std::string& text = word.get_ref<const std::string&>();
      params.bad_words.push_back(tokenizer.encode(text, false));
      if (text[0] != ' ') params.bad_words.push_back(tokenizer.encode(" " + text, false));
      continue;
    }
    if (!word.is_array()) return wrong_member(line, "bad_words", kWanted);
    std::vector<int32_t> ids;
    for (const Json& element : word) {
      Result<int32_t> id = token_id(element, line.where + ": bad_words", ids.size(), vocab);
      if (!id) return id.error();
      ids.push_back(*id);
    }
    params.bad_words.push_back(std::move(ids));
  }
  return Ok{};
}

Result<Ok> read_thinking(const JsonLine& line, ConstraintRequest& request) {
  const Json* thinking = member(line, "thinking");
  const Json* effort = member(line, "effort");
  if (thinking != nullptr && effort != nullptr) {
    return Error{Code::kInvalid,
                 line.where + ": \"thinking\" and \"effort\" say the same; one of them is wanted"};
  }
  const Json* word = thinking != nullptr ? thinking : effort;
  if (word != nullptr) {
    std::optional<ThinkingMode> mode;
    if (word->is_string()) {
      const std::string& text = word->get_ref<const std::string&>();
      mode = thinking != nullptr ? parse_thinking_mode(text) : mode_of_effort(text);
    }
    if (!mode) {
      return thinking != nullptr
                 ? wrong_member(line, "thinking", "\"enabled\", \"disabled\" or \"adaptive\"")
                 : wrong_member(line, "effort",
                                "\"none\", \"minimal\", \"low\", \"medium\", \"high\", \"xhigh\" "
                                "or \"max\"");
    }
    request.mode = *mode;
  }
  int64_t budget = 0;
  Result<Ok> read = read_count(line, "thinking_budget", 0, kMostCount, budget);
  if (read && member(line, "thinking_budget") != nullptr) request.thinking_budget = budget;
  return read;
}

// Schemas may be objects (or true and false), or their text.
GrammarSpec schema_of(const Json& schema) {
  return {.kind = GrammarSpec::Kind::kJsonSchema,
          .text = schema.is_string() ? schema.get<std::string>() : dump_json(schema),
          .choices = {}};
}

// {"type": "text" | "json_object" | "json_schema", "json_schema": {"schema": ...}}
Result<std::optional<GrammarSpec>> response_format(const JsonLine& line, const Json& format) {
  const Json type = format.is_object() ? format.value("type", Json()) : Json();
  if (type == "text") return std::optional<GrammarSpec>();
  if (type == "json_object") return std::optional<GrammarSpec>(GrammarSpec{});
  if (type == "json_schema") {
    const Json inner = format.value("json_schema", Json());
    if (inner.is_object() && inner.contains("schema")) {
      return std::optional<GrammarSpec>(schema_of(inner["schema"]));
    }
  }
  return wrong_member(line, "response_format",
                      "{\"type\": \"text\"}, {\"type\": \"json_object\"} or {\"type\": "
                      "\"json_schema\", \"json_schema\": {\"schema\": ...}}");
}

Result<GrammarSpec> choice_list(const JsonLine& line, const Json& list) {
  GrammarSpec spec{.kind = GrammarSpec::Kind::kChoice, .text = {}, .choices = {}};
  for (const Json& choice : list) {
    if (choice.is_string()) spec.choices.push_back(choice.get<std::string>());
  }
  if (list.is_array() && !spec.choices.empty() && spec.choices.size() == list.size()) return spec;
  return wrong_member(line, "choice", "a list of texts");
}

Result<std::optional<GrammarSpec>> format_of(const JsonLine& line, const char* key,
                                             const Json& value) {
  using Spec = std::optional<GrammarSpec>;
  const std::string_view name = key;
  if (name == "json_schema") return Spec(schema_of(value));
  if (name == "json_object") {
    if (!value.is_boolean()) return wrong_member(line, key, "true or false");
    return value.get<bool>() ? Spec(GrammarSpec{}) : Spec();
  }
  if (name == "choice") {
    Result<GrammarSpec> spec = choice_list(line, value);
    if (!spec) return spec.error();
    return Spec(*std::move(spec));
  }
  if (!value.is_string()) return wrong_member(line, key, "a text");
  return Spec(
      GrammarSpec{.kind = name == "regex" ? GrammarSpec::Kind::kRegex : GrammarSpec::Kind::kEbnf,
                  .text = value.get<std::string>(),
                  .choices = {}});
}

Result<Ok> read_format(const JsonLine& line, ConstraintRequest& request) {
  const char* named = nullptr;
  if (const Json* format = member(line, "response_format"); format != nullptr) {
    Result<std::optional<GrammarSpec>> spec = response_format(line, *format);
    if (!spec) return spec.error();
    request.format = *std::move(spec);
    named = "response_format";
  }
  for (const char* key : kFormats) {
    const Json* value = member(line, key);
    if (value == nullptr) continue;
    if (named != nullptr) {
      return Error{Code::kInvalid,
                   fmt::format("{}: \"{}\" and \"{}\" are both given; an answer has one format",
                               line.where, named, key)};
    }
    Result<std::optional<GrammarSpec>> spec = format_of(line, key, *value);
    if (!spec) return spec.error();
    request.format = *std::move(spec);
    named = key;
  }
  return Ok{};
}

// "auto", "none", "required", or {"type": "function", "function": {"name"}}.
Result<Ok> read_tool_choice(const JsonLine& line, ConstraintRequest& request) {
  const Json* found = member(line, "tool_choice");
  if (found == nullptr) return Ok{};
  using Kind = ToolChoice::Kind;
  ToolChoice& choice = request.choice;
  choice.name.clear();
  if (*found == "auto" || *found == "none" || *found == "required") {
    choice.kind = *found == "auto" ? Kind::kAuto : *found == "none" ? Kind::kNone : Kind::kRequired;
    return Ok{};
  }
  const Json function = found->is_object() ? found->value("function", Json()) : Json();
  const Json name = function.is_object() ? function.value("name", Json()) : Json();
  if (!name.is_string()) {
    return wrong_member(line, "tool_choice",
                        "\"auto\", \"none\", \"required\" or {\"type\": \"function\", "
                        "\"function\": {\"name\": ...}}");
  }
  choice.kind = Kind::kNamed;
  choice.name = name.get<std::string>();
  return Ok{};
}

}  // namespace

const Json* member(const JsonLine& line, const char* key) {
  const auto found = line.value.find(key);
  return found == line.value.end() || found->is_null() ? nullptr : &*found;
}

Result<Ok> check_batch_keys(const JsonLine& line) {
  return check_keys(line, {"id",
                           "messages",
                           "prompt",
                           "tokens",
                           "tools",
                           "tool_choice",
                           "response_format",
                           "json_schema",
                           "json_object",
                           "regex",
                           "choice",
                           "grammar",
                           "thinking",
                           "effort",
                           "thinking_budget",
                           "temperature",
                           "top_k",
                           "top_p",
                           "min_p",
                           "seed",
                           "repetition_penalty",
                           "max_tokens",
                           "presence_penalty",
                           "frequency_penalty",
                           "min_tokens",
                           "stop",
                           "stop_token_ids",
                           "ignore_eos",
                           "logit_bias",
                           "bad_words",
                           "n",
                           "allowed_token_ids",
                           "logprobs",
                           "prompt_logprobs"});
}

Result<Ok> read_sampling(const JsonLine& line, const Tokenizer& tokenizer, int vocab,
                         GenerateRequest& request) {
  SamplingParams& params = request.sampling;
  Result<Ok> read = Ok{};
  const auto number = [&](const char* key, double& out) {
    if (read) read = read_number(line, key, out);
  };
  const auto count = [&](const char* key, int64_t low, int64_t high, auto& out) {
    if (read) read = read_count(line, key, low, high, out);
  };
  number("temperature", params.temperature);
  number("top_p", params.top_p);
  number("min_p", params.min_p);
  number("repetition_penalty", params.repetition_penalty);
  number("presence_penalty", params.presence_penalty);
  number("frequency_penalty", params.frequency_penalty);
  count("top_k", 0, kMostCount, params.top_k);
  count("max_tokens", 1, kMostCount, request.max_tokens);
  count("min_tokens", 0, kMostCount, request.min_tokens);
  count("n", 1, 1, request.n);  // one answer a line; another line is another answer
  count("logprobs", 0, 20, request.logprobs);
  count("prompt_logprobs", 0, 20, request.prompt_logprobs);
  if (read) read = read_seed(line, params.seed);
  if (read) read = read_ids(line, "stop_token_ids", vocab, request.stop_ids);
  if (read) read = read_ids(line, "allowed_token_ids", vocab, params.allowed_tokens);
  if (read) read = read_bias(line, vocab, params);
  if (read) read = read_bad_words(line, tokenizer, vocab, params);
  if (!read) return read;
  const Json* ignore = member(line, "ignore_eos");
  if (ignore != nullptr && !ignore->is_boolean()) {
    return wrong_member(line, "ignore_eos", "true or false");
  }
  request.ignore_stop_ids = ignore != nullptr && ignore->get<bool>();
  Result<Ok> checked = check_sampling(params, vocab);
  if (!checked) return Error{checked.error().code, line.where + ": " + checked.error().message};
  return Ok{};
}

Result<std::vector<std::string>> read_stops(const JsonLine& line) {
  const Json* found = member(line, "stop");
  std::vector<std::string> stops;
  if (found == nullptr) return stops;
  const Json list = found->is_string() ? Json::array({*found}) : *found;
  for (const Json& stop : list) {
    const bool text = stop.is_string() && !stop.get_ref<const std::string&>().empty();
    if (!list.is_array() || !text) {
      return wrong_member(line, "stop", "a text or a list of texts, none empty");
    }
    stops.push_back(stop.get<std::string>());
  }
  if (!list.is_array()) return wrong_member(line, "stop", "a text or a list of texts, none empty");
  return stops;
}

Result<Ok> read_answer_keys(const JsonLine& line, ConstraintRequest& request) {
  Result<Ok> read = read_thinking(line, request);
  if (read) read = read_format(line, request);
  if (read) read = read_tool_choice(line, request);
  return read;
}

}  // namespace minim
