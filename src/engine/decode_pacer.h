// How many rows of prompts may run while others decode.
#pragma once

namespace minim {

// A prompt's rows make a step longer, and so every answer that is being written beside it. They may
// make decoding longer by `slack` on average: each step of decoding earns slack times its time, and
// a chunk of a prompt runs when what it costs has been earned. Prompts run in chunks and not row by
// row, since a row alone costs many times what it costs in a chunk. What runs when depends on time;
// what comes out never does.
class DecodePacer {
 public:
  // slack < 0: no limit.
  explicit DecodePacer(double slack) : slack_(slack) {}

  // At most this many rows of prompts beside n_decode_rows; `most`: what the step has room for.
  int allowed(int n_decode_rows, int most) const;
  // A step that took `seconds`.
  void observe(int n_decode_rows, int n_prompt_rows, double seconds);

  double seconds_per_prompt_row() const { return row_seconds_; }  // 0: not known yet
  double decode_seconds() const { return decode_seconds_; }       // of a step; 0: not known yet

 private:
  double slack_;
  double decode_seconds_ = 0;  // of a step without prompts, lately
  double row_seconds_ = 0;     // that a prompt's row adds, lately
  double earned_ = 0;
};

}  // namespace minim
