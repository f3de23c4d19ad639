#include "apps/answer_display.h"

#include <string>

#include "apps/console.h"

namespace minim {

AnswerDisplay::AnswerDisplay(bool silent)
    : silent_(silent), colour_(use_colour()), terminal_(stdout_is_terminal()) {}

bool AnswerDisplay::show(const OutputEvent& event) {
  using Kind = OutputEvent::Kind;
  switch (event.kind) {
    case Kind::kReasoning:
      return !terminal_ || write(true, !dimmed_, event.text);
    case Kind::kText:
      return write(false, dimmed_, event.text);
    case Kind::kToolStart:
      return write(true, true, "→ " + event.text + " ");
    case Kind::kToolArgs:
      return write(true, false, event.text);
    case Kind::kToolEnd:
      return write(true, false, event.complete ? "\n" : " (cut short)\n");
    case Kind::kFinish:
      return true;
  }
  return true;
}

bool AnswerDisplay::write(bool dimmed, bool new_line, std::string_view text) {
  if (silent_) return true;
  std::string out;
  if (dimmed != dimmed_ && colour_) out += dimmed ? "\x1b[2m" : "\x1b[0m";
  dimmed_ = dimmed;
  if (new_line && !at_line_start_) out += '\n';
  out += text;
  at_line_start_ = out.back() == '\n';
  return write_out(out) && flush_out();
}

void AnswerDisplay::end() {
  if (silent_) return;
  if (colour_ && dimmed_) write_out("\x1b[0m");
  if (!at_line_start_) write_out("\n");
  flush_out();
}

}  // namespace minim
