// What the family's templates have in common is code (native_render.cpp); this is where they
// differ: rules by which they treat the unusual, and prose, which is taken from the file at hand.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "base/json.h"
#include "text/chat_template.h"
#include "text/jinja_value.h"

namespace minim::native {

struct Rules {
  // Items of the types "image_url" and "video_url" are images and videos too.
  bool url_items;
  // Content that is a number or a truth value is printed; otherwise it vanishes, as mappings do.
  bool scalar_content;
  // A root or developer message without content gives way to the default text.
  bool default_for_empty;
  // model_identity counts wherever it is defined; otherwise only if it is true.
  bool any_identity;
  // A tool without "function" is listed as it is; otherwise that is an error.
  bool bare_tools;
  // reasoning_content of any type counts if it is true; otherwise any string counts, and even the
  // empty one keeps content from being searched for reasoning.
  bool any_reasoning;
  // Content behind its own reasoning loses newlines at both ends; otherwise only in front.
  bool strip_both_ends;
  // A call needs a name that is a string and arguments that are a mapping, and its "function"
  // counts if it is true; otherwise names print as they are, arguments may be missing, and
  // "function" counts if it is defined.
  bool strict_calls;
  // In arguments the template itself writes true, false and (in lists) null; otherwise true and
  // false count as data, and null leaves its item empty.
  bool own_words;
  // Items of a tool's result that is a list print their "output", "text" or themselves, and a
  // result is a list or a string; otherwise it is content like any other.
  bool result_items;
  // A user's message ends the time in which tool results may come.
  bool user_ends_calls;
};

// The mode as the prompt's beginning tells it apart.
enum class ToldMode { kAbsent, kEnabled, kDisabled, kAdaptive, kOther };
inline constexpr size_t kToldModes = 5;

struct Prose {
  jinja::Text head;                                   // up to the root's text
  jinja::Text identity;                               // the root's text where there is none
  std::array<jinja::Text, kToldModes> thinking;       // from there to the developer's text, by mode
  jinja::Text developer;                              // the developer's text where there is none
  jinja::Text tools_begin, tools_between, tools_end;  // around the JSON of tools; end of message
};

struct Grammar {
  Rules rules;
  Prose prose;
};

inline constexpr std::string_view kEndOfTurn = "[e~[\n";

// What the template makes of `vars`, or nothing where that is not certain here. `memory` may be
// null.
std::optional<std::vector<PromptSegment>> render(const Grammar& grammar, const Json& vars,
                                                 const TurnMemory* memory);

}  // namespace minim::native
