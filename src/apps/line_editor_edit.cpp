// The libedit adapter. libedit reads and edits wide characters only under a UTF-8 locale, so one is
// set for character classification alone; numbers keep the C locale.
#include <histedit.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <iostream>

#include "apps/line_editor.h"

namespace minim {

struct LineEditor::State {
  EditLine* edit = nullptr;  // null: no terminal that can
  History* history = nullptr;
  std::string prompt;
};

namespace {

constexpr int kHistoryLines = 500;

bool terminal_can_edit() {
  const char* term = getenv("TERM");
  return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 && term != nullptr &&
         strcmp(term, "dumb") != 0;
}

char* current_prompt(EditLine* edit) {
  void* data = nullptr;
  el_get(edit, EL_CLIENTDATA, &data);
  return static_cast<std::string*>(data)->data();
}

}  // namespace

LineEditor::LineEditor() : state_(std::make_unique<State>()) {
  if (!terminal_can_edit()) return;
  if (setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX == 1) setlocale(LC_CTYPE, "C.UTF-8");
  state_->edit = el_init("minim", stdin, stdout, stderr);
  if (state_->edit == nullptr) return;
  state_->history = history_init();
  HistEvent event;
  if (state_->history != nullptr) {
    history(state_->history, &event, H_SETSIZE, kHistoryLines);
    el_set(state_->edit, EL_HIST, history, state_->history);
  }
  el_set(state_->edit, EL_SIGNAL,
         1);  // leaves the terminal as it was when a signal ends the program
  el_set(state_->edit, EL_EDITOR, "emacs");
  el_set(state_->edit, EL_CLIENTDATA, &state_->prompt);
  el_set(state_->edit, EL_PROMPT, current_prompt);
}

LineEditor::~LineEditor() {
  if (state_->history != nullptr) history_end(state_->history);
  if (state_->edit != nullptr) el_end(state_->edit);
}

std::optional<std::string> LineEditor::read(const std::string& prompt) {
  std::string line;
  if (state_->edit == nullptr) {
    std::cout << prompt << std::flush;
    if (!std::getline(std::cin, line)) return std::nullopt;
    return line;
  }
  state_->prompt = prompt;
  int length = 0;
  const char* text = el_gets(state_->edit, &length);
  if (text == nullptr || length <= 0) return std::nullopt;
  line.assign(text, static_cast<size_t>(length));
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  HistEvent event;
  if (state_->history != nullptr && !line.empty()) {
    history(state_->history, &event, H_ENTER, line.c_str());
  }
  return line;
}

}  // namespace minim
