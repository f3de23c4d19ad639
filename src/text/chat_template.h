// A checkpoint's own chat template: conversation in, prompt text out, byte-equal to jinja2 3.1.6 as
// transformers sets it up (immutable sandbox, trim_blocks, lstrip_blocks, loop controls, {%
// generation %}, tojson without ASCII escaping, raise_exception, strftime_now).
//
// The prompt comes as segments that say who wrote each part. Text that a user, a tool or a caller's
// variable supplied is never from_template, whatever the template did to it on the way; so control
// tokens typed by a user stay plain text when only template segments are searched for them
// (prompt.h).
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/vocabulary.h"

namespace minim {

class NativeTemplate;
class TurnMemory;

struct PromptSegment {
  std::string text;
  bool from_template = false;
  // Not empty: these tokens stand here as they are, and the text is only what the template would
  // have written in their place.
  std::vector<TokenId> ids = {};
  bool operator==(const PromptSegment&) const = default;
};

class ChatTemplate {
 public:
  // Reads a template file: Jinja source, or (name ending in ".json") a JSON object with
  // "chat_template": a string, or a list of {"name", "template"} of which "default" is taken.
  static Result<ChatTemplate> load(const std::string& path);
  // Parses source; `name` stands in front of errors. At most jinja::kMaxTemplateBytes of valid
  // UTF-8.
  static Result<ChatTemplate> parse(std::string_view source, std::string_view name);

  // The family's templates are rendered by code of their own where that gives the same segments
  // (native_template.h), everything else by the interpreter.
  enum class Way {
    kFastest,
    kInterpreter,  // to compare with
    kNative,       // to compare with: an error where it would be the interpreter's
  };
  struct Options {
    // What strftime_now() shows; unset: the machine's local time.
    std::optional<std::tm> now = std::nullopt;
    Way way = Way::kFastest;
    // Replies whose tokens are repeated where an assistant message says the same: all between the
    // turn's role line and its end is then one segment with ids. Only native rendering does so;
    // the interpreter renders every turn by its text.
    const TurnMemory* memory = nullptr;
  };

  // Renders. `vars` is an object with every variable that the template sees (messages, tools,
  // add_generation_prompt, thinking_mode, bos_token, ...); an absent one is undefined, not null.
  // Neighbouring segments differ in from_template unless one has ids; none is empty. Errors, one
  // line with the template's name and line: what the template raises, and anything outside
  // jinja_runtime.h's limits (10 M steps, 256 MiB of output, 100,000 items of range(), ...); of
  // these native rendering has only the limit on output. Safe to call from several threads at once.
  Result<std::vector<PromptSegment>> render(const Json& vars, const Options& options) const;

  // Is this one of the templates that are rendered natively?
  bool native() const;

  // The segments' texts, joined.
  static std::string join(std::span<const PromptSegment> segments);

 private:
  struct Parsed;
  explicit ChatTemplate(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}
  std::shared_ptr<const Parsed> parsed_;
};

// A model folder's template: chat_template.jinja, else chat_template.json, else the entry of
// tokenizer_config.json. The error names the places looked at.
Result<ChatTemplate> load_chat_template(const std::string& model_dir);

}  // namespace minim
