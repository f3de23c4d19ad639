#include "engine/decode_pacer.h"

#include <algorithm>

namespace minim {
namespace {

constexpr int kChunkRows = 32;      // beside decoding: enough to share each weight that is read
constexpr double kMemory = 0.8;     // of averages
constexpr double kMaxEarned = 4.0;  // chunks; a pause of prompts is not saved up for a long stall

double blend(double old, double now) {
  return old == 0 ? now : kMemory * old + (1 - kMemory) * now;
}

}  // namespace

int DecodePacer::allowed(int n_decode_rows, int most) const {
  if (slack_ < 0 || n_decode_rows == 0 || most <= 0) return std::max(most, 0);
  const int chunk = std::min(most, kChunkRows);
  if (row_seconds_ == 0) return decode_seconds_ == 0 ? 0 : chunk;  // to learn the cost
  return earned_ >= row_seconds_ * chunk ? chunk : 0;
}

void DecodePacer::observe(int n_decode_rows, int n_prompt_rows, double seconds) {
  if (n_decode_rows == 0) {
    if (n_prompt_rows >= kChunkRows) row_seconds_ = blend(row_seconds_, seconds / n_prompt_rows);
    return;
  }
  if (n_prompt_rows == 0) {
    decode_seconds_ = blend(decode_seconds_, seconds);
  } else {
    const double extra = std::max(seconds - decode_seconds_, 0.0);
    row_seconds_ = blend(row_seconds_, extra / n_prompt_rows);
    earned_ -= extra;
  }
  earned_ += slack_ * decode_seconds_;
  earned_ = std::min(earned_, kMaxEarned * kChunkRows * row_seconds_);
}

}  // namespace minim
