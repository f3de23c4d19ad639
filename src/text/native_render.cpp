// Writes a conversation in the family's byte grammar, front to back, once. The oracle is the
// template: every branch here follows one there, and what would need Python's spelling of lists or
// mappings, or would be an error, is declined: the interpreter then does the whole conversation and
// says what is wrong. A compiler from templates to such code would cover more templates, but
// nobody could read what it trusts.
#include <algorithm>
#include <utility>

#include "text/jinja_runtime.h"
#include "text/native_grammar.h"
#include "text/native_value.h"
#include "text/segment_writer.h"
#include "text/turn_memory.h"

namespace minim::native {
namespace {

constexpr std::string_view kAi = "]~b]ai\n", kUser = "]~b]user\n", kTool = "]~b]tool";
constexpr std::string_view kThink = "<mm:think>", kEndThink = "</mm:think>";
constexpr std::string_view kImage = "]<]image[>[", kVideo = "]<]video[>[";
constexpr std::string_view kBeginCalls = "]<]minimax[>[<tool_call>\n";
constexpr std::string_view kEndCalls = "]<]minimax[>[</tool_call>";
constexpr std::string_view kBeginCall = "]<]minimax[>[<invoke name=\"";
constexpr std::string_view kEndCall = "]<]minimax[>[</invoke>\n";
constexpr std::string_view kBegin = "]<]minimax[>[<", kEnd = "]<]minimax[>[</";
// Room for segments is made beforehand, as moving them later costs as much as writing them: about
// what a message with a call of two parameters has.
constexpr size_t kSegmentsPerMessage = 12;
constexpr size_t kMaxExpectedMessages = 1024;

constexpr std::string_view kBeginItem = "]<]minimax[>[<item>", kEndItem = "]<]minimax[>[</item>";

ToldMode told_mode(const Json* mode) {
  if (!mode) return ToldMode::kAbsent;
  if (equals(mode, "enabled")) return ToldMode::kEnabled;
  if (equals(mode, "disabled")) return ToldMode::kDisabled;
  return equals(mode, "adaptive") ? ToldMode::kAdaptive : ToldMode::kOther;
}

bool is_developer(const Json& message) {
  const Json* role = member(message, "role");
  return equals(role, "system") || equals(role, "developer");
}

class Renderer {
 public:
  Renderer(const Grammar& grammar, const Json& vars, const TurnMemory* memory)
      : rules_(grammar.rules), prose_(grammar.prose), vars_(vars), memory_(memory) {}

  std::optional<std::vector<PromptSegment>> run() {
    const Json* messages = member(vars_, "messages");
    if (!messages || !messages->is_array()) return std::nullopt;
    out_.reserve(kSegmentsPerMessage * std::min(messages->size(), kMaxExpectedMessages));
    const size_t first = front(*messages);
    for (size_t i = first; i < messages->size() && !declined_; ++i) message(*messages, first, i);
    generation_prompt();
    if (declined_ || out_.size() > jinja::kMaxStringBytes) return std::nullopt;
    return out_.take();
  }

 private:
  void decline() { declined_ = true; }
  void literal(std::string_view text) { out_.append(text, true); }

  // --- values, into out_ or into a text of their own ---

  template <typename Sink>
  void print(const Json* value, Sink& out) {
    if (!value) return;
    if (value->is_string()) return out.append(value->get_ref<const std::string&>(), false);
    std::string text;
    if (!append_str(*value, &text)) return decline();
    out.append(text, false);
  }

  template <typename Sink>
  void content_item(const Json& item, Sink& out) {
    if (item.is_string()) return print(&item, out);
    const Json* type = member(item, "type");
    if (equals(type, "text"))
      print(member(item, "text"), out);
    else if (equals(type, "image") || (rules_.url_items && equals(type, "image_url")))
      out.append(kImage, true);
    else if (equals(type, "video") || (rules_.url_items && equals(type, "video_url")))
      out.append(kVideo, true);
  }

  template <typename Sink>
  void content(const Json* value, Sink& out) {
    if (!value || value->is_null()) return;
    if (value->is_string()) return print(value, out);
    if (value->is_array()) {
      for (const Json& item : value->get_ref<const Json::array_t&>()) content_item(item, out);
    } else if (rules_.scalar_content) {
      print(value, out);
    }
  }

  // --- the front ---

  size_t front(const Json& messages);
  bool speaks(const Json* message) const;
  void developer(const Json* message);
  void tools();

  // --- turns ---

  void message(const Json& messages, size_t first, size_t i);
  void assistant(const Json& message);
  void body(const Json& message);
  void reasoning(const Json* text);
  void split_reasoning(const Json* content);
  void calls(const Json& message);
  void call(const Json& call);
  void element(const std::string& key, const Json& value);
  void argument(const Json& value);
  void result(const Json* content);
  void result_item(const Json& item);
  void generation_prompt();

  const Rules& rules_;
  const Prose& prose_;
  const Json& vars_;
  const TurnMemory* memory_;
  SegmentWriter out_;
  bool results_may_come_ = false;
  bool declined_ = false;
};

// Writes what stands before the turns; the number of messages that it uses.
size_t Renderer::front(const Json& messages) {
  size_t used = 0;
  const auto next_if = [&](bool wanted) { return wanted ? &messages[used++] : nullptr; };
  const Json* root = next_if(!messages.empty() && equals(member(messages[0], "role"), "root"));
  const Json* second = next_if(messages.size() > used && is_developer(messages[used]));
  out_.append(prose_.head);
  if (speaks(root))
    content(member(*root, "content"), out_);
  else
    out_.append(prose_.identity);
  const ToldMode mode = told_mode(member(vars_, "thinking_mode"));
  out_.append(prose_.thinking[static_cast<size_t>(mode)]);
  developer(second);
  tools();
  return used;
}

// Does this message stand where a default would stand otherwise?
bool Renderer::speaks(const Json* message) const {
  return message && (!rules_.default_for_empty || truthy(member(*message, "content")));
}

void Renderer::developer(const Json* message) {
  if (speaks(message)) return content(member(*message, "content"), out_);
  const Json* identity = member(vars_, "model_identity");
  if (rules_.any_identity ? identity != nullptr : truthy(identity)) return print(identity, out_);
  out_.append(prose_.developer);
}

void Renderer::tools() {
  const Json* tools = member(vars_, "tools");
  if (!truthy(tools)) return literal(kEndOfTurn);
  if (!tools->is_array()) return decline();
  const jinja::Text* before = &prose_.tools_begin;
  for (const Json& tool : tools->get_ref<const Json::array_t&>()) {
    const Json* function = member(tool, "function");
    if (!function && !rules_.bare_tools) return decline();
    out_.append(*std::exchange(before, &prose_.tools_between));
    std::string json;
    append_json(function ? *function : tool, &json);
    out_.append(json, false);
  }
  out_.append(prose_.tools_end);
}

void Renderer::message(const Json& messages, size_t first, size_t i) {
  const Json& message = messages[i];
  const Json* role = member(message, "role");
  if (equals(role, "user")) {
    if (rules_.user_ends_calls) results_may_come_ = false;
    literal(kUser);
    content(member(message, "content"), out_);
    literal(kEndOfTurn);
  } else if (equals(role, "assistant")) {
    assistant(message);
  } else if (equals(role, "tool")) {
    const auto is_tool = [&](size_t at) { return equals(member(messages[at], "role"), "tool"); };
    if (!results_may_come_) return decline();
    if (i == first || !is_tool(i - 1)) literal(kTool);
    literal("\n<response>");
    result(member(message, "content"));
    literal("</response>");
    if (i + 1 == messages.size() || !is_tool(i + 1)) literal(kEndOfTurn);
  }
}

void Renderer::assistant(const Json& message) {
  literal(kAi);
  const auto ids = memory_ ? memory_->find(message) : nullptr;
  if (!ids) {
    body(message);
  } else {
    // The text is written all the same: for readers, and because it decides what may follow.
    SegmentWriter turns = std::exchange(out_, SegmentWriter());
    body(message);
    std::string text = ChatTemplate::join(out_.take());
    out_ = std::move(turns);
    out_.replay(std::move(text), *ids);
  }
  literal(kEndOfTurn);
}

void Renderer::body(const Json& message) {
  const Json* given = member(message, "reasoning_content");
  const Json* content = member(message, "content");
  const bool counts = rules_.any_reasoning ? truthy(given) : given && given->is_string();
  const bool may_hold_reasoning =
      content && (content->is_array() ||
                  (content->is_string() &&
                   content->get_ref<const std::string&>().find(kEndThink) != std::string::npos));
  if (!counts && may_hold_reasoning) {
    split_reasoning(content);
  } else {
    reasoning(counts ? given : nullptr);
    this->content(content, out_);
  }
  calls(message);
}

void Renderer::reasoning(const Json* text) {
  if (truthy(text)) {
    literal(kThink);
    print(text, out_);
  }
  literal(kEndThink);
}

// Content with reasoning inside: what stands between the last opener and the first closer.
void Renderer::split_reasoning(const Json* content) {
  jinja::Text text;
  this->content(content, text);
  const std::string_view bytes = text.view();
  size_t end = bytes.find(kEndThink);
  if (end == std::string_view::npos) {
    literal(kEndThink);
    return out_.append(text);
  }
  size_t rest = bytes.rfind(kEndThink) + kEndThink.size(), rest_end = bytes.size();
  const size_t opener = bytes.substr(0, end).rfind(kThink);
  size_t begin = opener == std::string_view::npos ? 0 : opener + kThink.size();
  while (begin < end && bytes[begin] == '\n') ++begin;
  while (begin < end && bytes[end - 1] == '\n') --end;
  if (begin < end) {
    literal(kThink);
    out_.append(text, begin, end);
  }
  literal(kEndThink);
  while (rest < rest_end && bytes[rest] == '\n') ++rest;
  while (rules_.strip_both_ends && rest < rest_end && bytes[rest_end - 1] == '\n') --rest_end;
  out_.append(text, rest, rest_end);
}

void Renderer::calls(const Json& message) {
  const Json* calls = member(message, "tool_calls");
  results_may_come_ = truthy(calls);
  if (!results_may_come_) return;
  if (!calls->is_array()) return decline();
  literal(kBeginCalls);
  for (const Json& item : calls->get_ref<const Json::array_t&>()) call(item);
  literal(kEndCalls);
}

void Renderer::call(const Json& item) {
  const Json* function = member(item, "function");
  const bool nested = rules_.strict_calls ? truthy(function) : function != nullptr;
  const Json& call = nested ? *function : item;
  const Json* name = member(call, "name");
  const Json* arguments = member(call, "arguments");
  const bool mapping = arguments && arguments->is_object();
  if (rules_.strict_calls ? !mapping || !name || !name->is_string()
                          : !mapping && truthy(arguments)) {
    return decline();
  }
  literal(kBeginCall);
  print(name, out_);
  literal("\">");
  if (mapping) {
    for (const auto& [key, value] : arguments->get_ref<const Json::object_t&>())
      element(key, value);
  }
  literal(kEndCall);
}

// Members that are null are left out at every depth.
void Renderer::element(const std::string& key, const Json& value) {
  if (value.is_null()) return;
  literal(kBegin);
  out_.append(key, false);
  literal(">");
  argument(value);
  literal(kEnd);
  out_.append(key, false);
  literal(">");
}

void Renderer::argument(const Json& value) {
  if (value.is_object()) {
    for (const auto& [key, item] : value.get_ref<const Json::object_t&>()) element(key, item);
  } else if (value.is_array()) {
    for (const Json& item : value.get_ref<const Json::array_t&>()) {
      literal(kBeginItem);
      argument(item);
      literal(kEndItem);
    }
  } else if (value.is_boolean()) {
    out_.append(value.get<bool>() ? "true" : "false", rules_.own_words);
  } else if (value.is_null()) {
    if (rules_.own_words) literal("null");
  } else {
    print(&value, out_);
  }
}

void Renderer::result(const Json* value) {
  if (!rules_.result_items) return content(value, out_);
  if (!value) return;
  if (value->is_string()) return print(value, out_);
  if (!value->is_array()) return decline();
  for (const Json& item : value->get_ref<const Json::array_t&>()) result_item(item);
}

void Renderer::result_item(const Json& item) {
  const Json* type = member(item, "type");
  if (equals(type, "image")) return literal(kImage);
  if (equals(type, "video")) return literal(kVideo);
  const Json* output = member(item, "output");
  const Json* text = equals(type, "text") ? member(item, "text") : nullptr;
  print(output ? output : text ? text : &item, out_);
}

void Renderer::generation_prompt() {
  if (!truthy(member(vars_, "add_generation_prompt"))) return;
  literal(kAi);
  const ToldMode mode = told_mode(member(vars_, "thinking_mode"));
  if (mode == ToldMode::kEnabled) literal(kThink);
  if (mode == ToldMode::kDisabled) literal(kEndThink);
}

}  // namespace

std::optional<std::vector<PromptSegment>> render(const Grammar& grammar, const Json& vars,
                                                 const TurnMemory* memory) {
  if (!ordinary(vars)) return std::nullopt;
  return Renderer(grammar, vars, memory).run();
}

}  // namespace minim::native
