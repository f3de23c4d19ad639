// The one place where tokens become a reply's text and stop strings are looked for. The engine's
// thread does it to know when to end, the reader's to know what to show: both run the same function
// of the tokens, so they agree without telling each other. Handing the text over beside the tokens
// lost: it would have made the engine carry text.
#include "apps/reply_rules.h"

#include <algorithm>
#include <utility>

namespace minim {

ReplyText::ReplyText(const Tokenizer& tokenizer, std::shared_ptr<const ReplyForm> form)
    : form_(std::move(form)), plain_(tokenizer, false), stops_(form_->stops) {
  if (!form_->raw) parser_.emplace(tokenizer, form_->tools, form_->mode);
}

std::vector<OutputEvent> ReplyText::push(TokenId token) {
  std::vector<OutputEvent> events;
  const bool over =
      stopped_by().has_value() ||
      std::find(form_->stop_ids.begin(), form_->stop_ids.end(), token) != form_->stop_ids.end();
  if (over) return events;
  if (parser_) {
    parser_->push(token, events);
  } else if (std::string text = plain_.push(token); !text.empty()) {
    events.push_back({.text = std::move(text)});
  }
  return cut(std::move(events));
}

std::vector<OutputEvent> ReplyText::finish(const std::string& engine_finish) {
  std::vector<OutputEvent> events;
  const bool stopped = stopped_by().has_value();
  const std::string word = stopped ? "stop" : engine_finish;
  if (parser_) {
    parser_->finish(word, events);
  } else {
    if (std::string text = plain_.flush(); !text.empty()) {
      events.push_back({.text = std::move(text)});
    }
    events.push_back({.kind = OutputEvent::Kind::kFinish, .text = word});
  }
  std::vector<OutputEvent> out = cut(std::move(events));
  if (std::string held = stops_.flush(); !held.empty()) {
    out.insert(out.end() - 1, OutputEvent{.text = std::move(held)});
  }
  return out;
}

// Text goes through the stop strings; behind a match there is only the end.
std::vector<OutputEvent> ReplyText::cut(std::vector<OutputEvent> events) {
  if (form_->stops.empty()) return events;
  std::vector<OutputEvent> out;
  for (OutputEvent& event : events) {
    const bool ends =
        event.kind == OutputEvent::Kind::kToolEnd || event.kind == OutputEvent::Kind::kFinish;
    if (stopped_by() && !ends) continue;
    if (event.kind == OutputEvent::Kind::kText) event.text = stops_.push(event.text);
    if (event.kind != OutputEvent::Kind::kText || !event.text.empty()) {
      out.push_back(std::move(event));
    }
  }
  return out;
}

ReplyRules::ReplyRules(const Tokenizer& tokenizer, std::shared_ptr<const ReplyForm> form,
                       std::unique_ptr<OutputConstraint> constraint)
    : form_(std::move(form)), constraint_(std::move(constraint)) {
  if (!form_->stops.empty()) text_.emplace(tokenizer, form_);
}

std::span<const uint32_t> ReplyRules::allowed() {
  const TokenBits* bits = constraint_ == nullptr ? nullptr : constraint_->allowed();
  return bits == nullptr ? std::span<const uint32_t>() : std::span<const uint32_t>(*bits);
}

std::vector<int32_t> ReplyRules::forced() {
  return constraint_ == nullptr ? std::vector<int32_t>() : constraint_->forced();
}

bool ReplyRules::accept(int32_t token) {
  if (std::find(form_->stop_ids.begin(), form_->stop_ids.end(), token) != form_->stop_ids.end()) {
    return false;
  }
  if (constraint_ != nullptr) constraint_->accept(token);
  if (!text_) return false;
  (void)text_->push(token);
  return text_->stopped_by().has_value();
}

}  // namespace minim
