// Owns where a template is found and what it is given; the language is in jinja_*. An own
// interpreter, because prompt bytes must be exact (numbers as Python prints them, code points,
// whitespace rules) and because every byte has to carry its origin; the packaged C++ engines give
// neither.
#include "text/chat_template.h"

#include <fmt/format.h>

#include "text/jinja_eval.h"
#include "text/jinja_parser.h"
#include "text/native_template.h"
#include "text/segment_writer.h"

namespace minim {

struct ChatTemplate::Parsed {
  std::string name;
  jinja::Body body;
  std::optional<NativeTemplate> native;
};

namespace {

// The template inside tokenizer_config.json or chat_template.json.
Result<std::string> template_entry(const Json& json, const std::string& path) {
  const auto wrong = [&](std::string_view what) {
    return Error{
        Code::kInvalid,
        fmt::format(
            "{}: {}; wanted \"chat_template\": a string, or a list of {{\"name\", \"template\"}}",
            path, what)};
  };
  if (!json.is_object()) return wrong("not a JSON object");
  const auto entry = json.find("chat_template");
  if (entry == json.end())
    return Error{Code::kNotFound, fmt::format("{}: no \"chat_template\"", path)};
  if (entry->is_string()) return entry->get<std::string>();
  if (!entry->is_array()) return wrong("\"chat_template\" is neither a string nor a list");
  for (const Json& item : *entry) {
    if (!item.is_object()) return wrong("an item of \"chat_template\" is not an object");
    const auto name = item.find("name");
    const auto text = item.find("template");
    if (name == item.end() || !name->is_string() || text == item.end() || !text->is_string()) {
      return wrong("an item of \"chat_template\" lacks \"name\" or \"template\"");
    }
    if (name->get_ref<const std::string&>() == "default") return text->get<std::string>();
  }
  return wrong("no template is named \"default\"");
}

}  // namespace

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, std::string_view name) {
  auto parsed = std::make_shared<Parsed>();
  parsed->name = name;
  Result<jinja::Body> body = jinja::parse(source, name);
  if (!body) return body.error();
  parsed->body = std::move(*body);
  if (const auto variant = NativeTemplate::variant_of(source))
    parsed->native = NativeTemplate::derive(*variant, parsed->body, parsed->name);
  return ChatTemplate(std::move(parsed));
}

Result<ChatTemplate> ChatTemplate::load(const std::string& path) {
  constexpr std::string_view kJson = ".json";
  if (path.size() < kJson.size() || path.substr(path.size() - kJson.size()) != kJson) {
    Result<std::string> source = require_plain_file(path);
    if (!source) return source.error();
    return parse(*source, path);
  }
  Result<Json> json = read_json_file(path);
  if (!json) return json.error();
  Result<std::string> source = template_entry(*json, path);
  if (!source) return source.error();
  return parse(*source, path);
}

Result<std::vector<PromptSegment>> ChatTemplate::render(const Json& vars,
                                                        const Options& options) const {
  if (!vars.is_object())
    return Error{
        Code::kInvalid,
        fmt::format("{}: the variables of a template must be a JSON object", parsed_->name)};
  if (parsed_->native && options.way != Way::kInterpreter) {
    std::optional<std::vector<PromptSegment>> segments =
        parsed_->native->render(vars, options.memory);
    if (segments) return *std::move(segments);
  }
  if (options.way == Way::kNative)
    return Error{Code::kInvalid,
                 fmt::format("{}: {}", parsed_->name,
                             parsed_->native ? "this conversation is the interpreter's"
                                             : "the template is the interpreter's")};
  std::tm now{};
  if (options.now) {
    now = *options.now;
  } else {
    const std::time_t seconds = std::time(nullptr);
    localtime_r(&seconds, &now);
  }
  Result<jinja::Text> text = jinja::evaluate(parsed_->body, parsed_->name, vars, now);
  if (!text) return text.error();
  native::SegmentWriter segments;
  segments.append(*text);
  return segments.take();
}

bool ChatTemplate::native() const { return parsed_->native.has_value(); }

std::string ChatTemplate::join(std::span<const PromptSegment> segments) {
  std::string out;
  for (const PromptSegment& segment : segments) out += segment.text;
  return out;
}

Result<ChatTemplate> load_chat_template(const std::string& model_dir) {
  for (const char* name : {"chat_template.jinja", "chat_template.json", "tokenizer_config.json"}) {
    Result<ChatTemplate> found = ChatTemplate::load(model_dir + "/" + name);
    if (found || found.error().code != Code::kNotFound) return found;
  }
  return Error{
      Code::kNotFound,
      fmt::format("{}: no chat template; looked at chat_template.jinja, chat_template.json and the "
                  "\"chat_template\" of tokenizer_config.json",
                  model_dir)};
}

}  // namespace minim
