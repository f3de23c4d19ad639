// Five places: thinking, content, a block of calls, a call, a parameter of it. Markers and tags
// move between them, text goes where the place says. Behind an NS token the bytes go to the tag
// scanner first; what turns out to be no tag goes on as text of the same place. Nothing depends on
// where the text was cut: every decision is made at a byte or a marker, and events of one call are
// joined only for fewer events.
#include "text/output_parser.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "text/call_arguments.h"
#include "text/output_tags.h"
#include "text/value_schema.h"
#include "text/value_text.h"

namespace minim {
namespace {

using Kind = OutputEvent::Kind;

// Appends events; a piece joins the one before it if that came in the same call.
class Sink {
 public:
  explicit Sink(std::vector<OutputEvent>& out) : out_(out), begin_(out.size()) {}

  void piece(Kind kind, int tool, std::string_view text) {
    if (text.empty()) return;
    if (out_.size() > begin_ && out_.back().kind == kind && out_.back().tool == tool) {
      out_.back().text += text;
    } else {
      add(kind, tool, std::string(text));
    }
  }
  void add(Kind kind, int tool, std::string text, bool complete = false) {
    out_.push_back({.kind = kind, .tool = tool, .text = std::move(text), .complete = complete});
  }

 private:
  std::vector<OutputEvent>& out_;
  size_t begin_;
};

// The rule for white space in content: a piece between two markers, or between a marker and an end
// of the reply, is dropped if it is nothing but white space.
class ContentPiece {
 public:
  void text(std::string_view text, Sink& sink) {
    if (!started_) {
      if (is_markup_space(text)) {
        space_ += text;
        return;
      }
      started_ = true;
      sink.piece(Kind::kText, -1, std::exchange(space_, {}));
    }
    sink.piece(Kind::kText, -1, text);
  }
  void boundary() {
    space_.clear();
    started_ = false;
    touches_ = true;
  }
  void finish(Sink& sink) {
    if (!touches_) sink.piece(Kind::kText, -1, space_);
  }

 private:
  std::string space_;     // held back
  bool started_ = false;  // something else than white space was sent
  bool touches_ = false;  // some marker of the reply came before
};

}  // namespace

struct OutputParser::State {
  enum class Place : uint8_t { kThinking, kContent, kBlock, kCall };  // kCall: parameters too

  std::shared_ptr<const ToolSet> tools;
  SchemaReader schemas;
  Place place = Place::kContent;
  bool in_tag = false;  // behind an NS token, undecided
  TagScanner scanner;
  ContentPiece content;
  std::optional<CallArguments> arguments;  // of the open call
  std::string beside;                      // text between the parameters of the open call
  int n_calls = 0, n_complete = 0;
  bool finished = false;

  void text(std::string_view text, Sink& sink);
  void plain(std::string_view text, Sink& sink);
  void marker(Marker marker, Sink& sink);
  void finish(std::string_view engine_finish, Sink& sink);

 private:
  bool in_parameter() const { return arguments && arguments->in_parameter(); }
  size_t scan(std::string_view text, Sink& sink);
  void start_tag();
  void release(Sink& sink);
  void tag(const OutputTag& tag, Sink& sink);
  void start_call(const std::string& name, Sink& sink);
  void end_call(bool complete, Sink& sink);
  void send_arguments(std::string_view fragment, Sink& sink) {
    sink.piece(Kind::kToolArgs, n_calls, fragment);
  }
};

void OutputParser::State::text(std::string_view text, Sink& sink) {
  while (!text.empty()) {
    if (!in_tag) return plain(text, sink);
    text.remove_prefix(scan(text, sink));
  }
}

// Feeds the scanner until it decides; the number of bytes taken.
size_t OutputParser::State::scan(std::string_view text, Sink& sink) {
  for (size_t i = 0; i < text.size(); ++i) {
    const TagScanner::Verdict verdict = scanner.push(text[i]);
    if (verdict == TagScanner::Verdict::kUndecided) continue;
    if (verdict == TagScanner::Verdict::kNoTag) {
      release(sink);
    } else {
      in_tag = false;
      tag(scanner.tag(), sink);
    }
    return i + 1;
  }
  return text.size();
}

void OutputParser::State::plain(std::string_view text, Sink& sink) {
  if (place == Place::kThinking) return sink.piece(Kind::kReasoning, -1, text);
  if (place != Place::kCall) return content.text(text, sink);
  if (!in_parameter()) {
    beside += text;
    return;
  }
  std::string fragment;
  arguments->text(text, fragment);
  send_arguments(fragment, sink);
}

// No tag: the NS token is gone, the characters are text.
void OutputParser::State::release(Sink& sink) {
  if (!std::exchange(in_tag, false)) return;
  plain(scanner.take_bytes(), sink);
}

void OutputParser::State::start_tag() {
  in_tag = true;
  TagPlace where{.in_block = place == Place::kBlock || place == Place::kCall,
                 .in_call = place == Place::kCall,
                 .may_open = arguments && arguments->may_open(),
                 .open_elements = {}};
  if (arguments) where.open_elements = arguments->open_names();
  scanner.start(std::move(where));
}

void OutputParser::State::marker(Marker marker, Sink& sink) {
  release(sink);
  if (marker == Marker::kNs) return start_tag();
  const bool think = marker == Marker::kThink;
  switch (place) {
    case Place::kCall:  // a file that is being written may hold the markers; elsewhere they vanish
      if (in_parameter()) plain(think ? kThinkLiteral : kEndThinkLiteral, sink);
      return;
    case Place::kThinking:
      if (think) return;
      place = Place::kContent;
      return content.boundary();
    case Place::kContent:
    case Place::kBlock:
      if (think) place = Place::kThinking;
      return content.boundary();
  }
}

void OutputParser::State::tag(const OutputTag& tag, Sink& sink) {
  std::string fragment;
  switch (tag.kind) {
    case OutputTag::Kind::kBlock:
    case OutputTag::Kind::kEndBlock:
      if (place == Place::kCall) end_call(true, sink);
      place = tag.kind == OutputTag::Kind::kBlock ? Place::kBlock : Place::kContent;
      return content.boundary();
    case OutputTag::Kind::kInvoke:
      if (place == Place::kCall) end_call(true, sink);
      return start_call(tag.name, sink);
    case OutputTag::Kind::kEndInvoke:
      return end_call(true, sink);
    case OutputTag::Kind::kOpen:
      arguments->open(tag.name, fragment);
      return send_arguments(fragment, sink);
    case OutputTag::Kind::kClose:
      arguments->close_to(tag.level, fragment);
      return send_arguments(fragment, sink);
  }
}

void OutputParser::State::start_call(const std::string& name, Sink& sink) {
  content.boundary();
  place = Place::kCall;
  const Tool* tool = tools->find(name);
  const bool typed = tool != nullptr && tool->parameters.is_object();
  arguments.emplace(schemas, typed ? &tool->parameters : nullptr);
  sink.add(Kind::kToolStart, n_calls, name);
}

void OutputParser::State::end_call(bool complete, Sink& sink) {
  std::string fragment;
  if (complete) arguments->end(fragment);
  send_arguments(fragment, sink);
  sink.add(Kind::kToolEnd, n_calls, {}, complete);
  ++n_calls;
  n_complete += complete ? 1 : 0;
  arguments.reset();
  place = Place::kBlock;
  // Nothing may come between the start and the end of a call, so what stood there comes now.
  content.boundary();
  content.text(std::exchange(beside, {}), sink);
  content.boundary();
}

void OutputParser::State::finish(std::string_view engine_finish, Sink& sink) {
  CHECK(!std::exchange(finished, true), "a reply ends once");
  const bool model_ended = engine_finish == "stop";
  in_tag = false;  // the characters of an unfinished tag are dropped
  if (place == Place::kCall) end_call(model_ended && !in_parameter(), sink);
  content.finish(sink);
  const bool calls = model_ended && n_complete > 0;
  sink.add(Kind::kFinish, -1, calls ? "tool_calls" : std::string(engine_finish));
}

OutputParser::OutputParser(std::shared_ptr<const ToolSet> tools, ThinkingMode mode)
    : state_(std::make_unique<State>()) {
  state_->tools = tools != nullptr ? std::move(tools) : std::make_shared<const ToolSet>();
  if (mode == ThinkingMode::kEnabled) state_->place = State::Place::kThinking;
}
OutputParser::~OutputParser() = default;
OutputParser::OutputParser(OutputParser&&) noexcept = default;
OutputParser& OutputParser::operator=(OutputParser&&) noexcept = default;

void OutputParser::push_text(std::string_view text, std::vector<OutputEvent>& out) {
  Sink sink(out);
  state_->text(text, sink);
}

void OutputParser::push_marker(Marker marker, std::vector<OutputEvent>& out) {
  Sink sink(out);
  state_->marker(marker, sink);
}

void OutputParser::finish(std::string_view engine_finish, std::vector<OutputEvent>& out) {
  Sink sink(out);
  state_->finish(engine_finish, sink);
}

bool OutputParser::in_reasoning() const { return state_->place == State::Place::kThinking; }

}  // namespace minim
