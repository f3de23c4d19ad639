// A line of text from a person at a terminal.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace minim {

// Editing and history where the terminal can, plain lines where it cannot. Ctrl-C at the prompt
// ends the program, as SIGINT does.
class LineEditor {
 public:
  LineEditor();
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // Without its line break; nullopt at the end of the input (Ctrl-D).
  std::optional<std::string> read(const std::string& prompt);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace minim
