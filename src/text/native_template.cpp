// Owns which templates are known and how their prose is found. Marked conversations are robust
// where reading literals out of the syntax tree is not: they do not care how the template spells
// its pieces together. What the marks cannot show, the comparison at the end does: a template whose
// bytes are known but whose grammar is another is never rendered natively.
#include "text/native_template.h"

#include <array>
#include <utility>

#include "base/check.h"
#include "base/sha256.h"
#include "text/jinja_eval.h"
#include "text/segment_writer.h"

namespace minim {
namespace {

using jinja::Text;
using native::kEndOfTurn;
using Variant = NativeTemplate::Variant;

constexpr std::pair<std::string_view, Variant> kKnown[] = {
    {"11421244f67553498e5c8112dae02802025bcc4305ec45ad380af95c96f9fe64", Variant::kMiniMaxM3},
    {"a36158154d2e1eb0e6deb13a112909e75ac991306d0745486ab5c7720bcdb2b9", Variant::kMinimDemo},
};

constexpr native::Rules kMiniMaxM3Rules = {.url_items = false,
                                           .scalar_content = true,
                                           .default_for_empty = true,
                                           .any_identity = true,
                                           .bare_tools = false,
                                           .any_reasoning = false,
                                           .strip_both_ends = true,
                                           .strict_calls = true,
                                           .own_words = false,
                                           .result_items = true,
                                           .user_ends_calls = false};
constexpr native::Rules kMinimDemoRules = {.url_items = true,
                                           .scalar_content = false,
                                           .default_for_empty = false,
                                           .any_identity = false,
                                           .bare_tools = true,
                                           .any_reasoning = true,
                                           .strip_both_ends = false,
                                           .strict_calls = false,
                                           .own_words = true,
                                           .result_items = false,
                                           .user_ends_calls = true};

// Values of thinking_mode by ToldMode; the first is left out.
constexpr std::array<const char*, native::kToldModes> kModes = {nullptr, "enabled", "disabled",
                                                                "adaptive", "?"};

// Marks: characters for private use, which no template writes.
constexpr std::string_view kRoot = "\xEE\x80\x80", kDeveloper = "\xEE\x80\x81";
constexpr std::string_view kFirstTool = "\"\xEE\x80\x82\"", kSecondTool = "\"\xEE\x80\x83\"";

class Prober {
 public:
  Prober(const jinja::Body& body, const std::string& name) : body_(body), name_(name) {}

  std::optional<native::Prose> prose();
  // Do both ways give the same for some conversations?
  bool agree(const native::Grammar& grammar) const;

 private:
  std::optional<Text> rendered(const Json& vars) const {
    Result<Text> text = jinja::evaluate(body_, name_, vars, std::tm{});
    if (!text) return std::nullopt;
    return *std::move(text);
  }
  // What the template makes of a beginning with these parts.
  Text probe(bool root, bool developer, const char* mode, bool tools);
  // Cuts; a piece that is not there ends the probing.
  size_t place(const Text& text, std::string_view mark);
  Text piece(const Text& text, size_t begin, size_t end);

  const jinja::Body& body_;
  const std::string& name_;
  bool failed_ = false;
};

Text Prober::probe(bool root, bool developer, const char* mode, bool tools) {
  Json vars{{"messages", Json::array()}};
  const auto message = [](const char* role, std::string_view content) {
    return Json{{"role", role}, {"content", std::string(content)}};
  };
  if (root) vars["messages"].push_back(message("root", kRoot));
  if (developer) vars["messages"].push_back(message("system", kDeveloper));
  if (mode) vars["thinking_mode"] = mode;
  if (tools) {
    for (const std::string_view quoted : {kFirstTool, kSecondTool})
      vars["tools"].push_back({{"function", std::string(quoted.substr(1, quoted.size() - 2))}});
  }
  std::optional<Text> text = rendered(vars);
  failed_ |= !text.has_value();
  return text ? *std::move(text) : Text();
}

size_t Prober::place(const Text& text, std::string_view mark) {
  const size_t at = text.view().find(mark);
  failed_ |= at == std::string_view::npos || at != text.view().rfind(mark);
  return failed_ ? 0 : at;
}

Text Prober::piece(const Text& text, size_t begin, size_t end) {
  failed_ |= begin > end || end > text.size();
  return failed_ ? Text() : text.slice(begin, end);
}

std::optional<native::Prose> Prober::prose() {
  native::Prose prose;
  for (size_t i = 0; i < kModes.size(); ++i) {
    const Text text = probe(true, true, kModes[i], false);
    const size_t root = place(text, kRoot), developer = place(text, kDeveloper);
    prose.head = piece(text, 0, root);
    prose.thinking[i] = piece(text, root + kRoot.size(), developer);
    failed_ |= text.view().substr(developer + kDeveloper.size()) != kEndOfTurn;
    if (failed_) return std::nullopt;
  }
  const Text& unset = prose.thinking[0];
  const Text no_root = probe(false, true, nullptr, false);
  const size_t developer = place(no_root, kDeveloper);
  prose.identity = piece(no_root, prose.head.size(), developer - unset.size());
  const Text no_developer = probe(true, false, nullptr, false);
  const size_t root = place(no_developer, kRoot);
  prose.developer = piece(no_developer, root + kRoot.size() + unset.size(),
                          no_developer.size() - kEndOfTurn.size());
  const Text tools = probe(true, true, nullptr, true);
  const size_t first = place(tools, kFirstTool), second = place(tools, kSecondTool);
  prose.tools_begin = piece(tools, place(tools, kDeveloper) + kDeveloper.size(), first);
  prose.tools_between = piece(tools, first + kFirstTool.size(), second);
  prose.tools_end = piece(tools, second + kSecondTool.size(), tools.size());
  if (failed_) return std::nullopt;
  return prose;
}

// Conversations that take every branch which ordinary use takes.
constexpr std::string_view kConversations = R"([
  [],
  [{"role": "user", "content": "u"}],
  [{"role": "root", "content": "r"}, {"role": "developer", "content": "d"}, {"role": "system", "content": "late"},
   {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "video"}, "b"]},
   {"role": "assistant", "content": "x", "reasoning_content": "y"},
   {"role": "user", "content": "v"},
   {"role": "assistant", "content": "\n<mm:think>\nz\n</mm:think>\n\nw\n"}],
  [{"role": "system", "content": "s"}, {"role": "user", "content": "</mm:think>"},
   {"role": "assistant", "content": "c", "reasoning_content": "r", "tool_calls": [
     {"type": "function", "function": {"name": "f", "arguments":
       {"a": {"b": null, "c": [1, 1e16, -0.5, true, {"d": "e"}, [], {}]}, "g": null, "h": false, "i": ""}}},
     {"name": "k", "arguments": {}}]},
   {"role": "tool", "content": "t"}, {"role": "tool", "content": [{"type": "text", "text": "]~b]"}]},
   {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"<": "]~b]ai"}}}]},
   {"role": "tool", "content": ""}, {"role": "user", "content": "."}]
])";

bool Prober::agree(const native::Grammar& grammar) const {
  const Result<Json> conversations = parse_json(kConversations, "conversations");
  CHECK(conversations);
  for (const Json& messages : *conversations) {
    for (const char* mode : kModes) {
      Json vars{{"messages", messages}, {"add_generation_prompt", messages.size() != 2}};
      if (mode) vars["thinking_mode"] = mode;
      if (messages.size() % 2 == 1)
        vars["tools"] = {{{"function", {{"name", "f"}, {"x", {1.5, "\n\"\xC3\xA9\"", nullptr}}}}}};
      const std::optional<Text> want = rendered(vars);
      const auto got = native::render(grammar, vars, nullptr);
      native::SegmentWriter segments;
      if (want) segments.append(*want);
      if (!want || !got || *got != segments.take()) return false;
    }
  }
  return true;
}

}  // namespace

std::optional<Variant> NativeTemplate::variant_of(std::string_view source) {
  const std::string hash = sha256_hex(source);
  for (const auto& [known, variant] : kKnown) {
    if (known == hash) return variant;
  }
  return std::nullopt;
}

std::optional<NativeTemplate> NativeTemplate::derive(Variant variant, const jinja::Body& body,
                                                     const std::string& name) {
  Prober prober(body, name);
  std::optional<native::Prose> prose = prober.prose();
  if (!prose) return std::nullopt;
  native::Grammar grammar{variant == Variant::kMiniMaxM3 ? kMiniMaxM3Rules : kMinimDemoRules,
                          *std::move(prose)};
  if (!prober.agree(grammar)) return std::nullopt;
  return NativeTemplate(std::move(grammar));
}

}  // namespace minim
