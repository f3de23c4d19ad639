// A reply as it is shown while it is produced.
#pragma once

#include "text/output_parser.h"

namespace minim {

// Thinking is dimmed on a terminal and left out in a pipe. A tool call is a line of its own in
// both, "→ NAME ARGUMENTS", ending in " (cut short)" if the reply ended inside it.
class AnswerDisplay {
 public:
  explicit AnswerDisplay(bool silent);

  // False once nobody reads any more.
  bool show(const OutputEvent& event);
  // Colours off, and a line break if the last line has none.
  void end();

 private:
  bool write(bool dimmed, bool new_line, std::string_view text);

  bool silent_, colour_, terminal_;
  bool dimmed_ = false, at_line_start_ = true;
};

}  // namespace minim
