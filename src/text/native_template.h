// Chat templates of the family that are known by their bytes, rendered by code instead of by the
// interpreter: the same segments, much faster. Any other template, and any conversation that is
// not handled here exactly as the template does, is the interpreter's.
//
// The prose of a template is not part of this program. It is read out of the file at hand by
// rendering small conversations with marked places.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/jinja_parser.h"
#include "text/native_grammar.h"

namespace minim {

class NativeTemplate {
 public:
  // The byte grammars that the code can write.
  enum class Variant {
    kMiniMaxM3,  // the official template
    kMinimDemo,  // the demo model's, with rules of its own for the unusual
  };

  // The variant of a known template, by the SHA-256 of its source.
  static std::optional<Variant> variant_of(std::string_view source);

  // Takes the prose from a parsed template and compares some conversations with the interpreter's
  // rendering; nothing if the template does not have the variant's grammar.
  static std::optional<NativeTemplate> derive(Variant variant, const jinja::Body& body,
                                              const std::string& name);

  // The segments that the interpreter would give; nothing where it has to decide. `memory` (may be
  // null): replies to repeat by their tokens. Safe to call from several threads at once.
  std::optional<std::vector<PromptSegment>> render(const Json& vars,
                                                   const TurnMemory* memory) const {
    return native::render(grammar_, vars, memory);
  }

 private:
  explicit NativeTemplate(native::Grammar grammar) : grammar_(std::move(grammar)) {}
  native::Grammar grammar_;
};

}  // namespace minim
