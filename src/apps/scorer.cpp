// A row's logits say how probable the *next* token was, so a position is reported with the
// distribution of the row before it and the trace of its own row. Steps are short because logits of
// 200,000 columns are wanted for every row: 64 rows are 51 MB.
#include "apps/scorer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace minim {

namespace {

// A NaN in a weight reaches every later token; a probability made of it would look like a number.
Result<Ok> check_row(std::span<const float> logits, const TokenMask& mask, size_t position) {
  for (size_t id = 0; id < logits.size(); ++id) {
    if (mask[id] == 0 || std::isfinite(logits[id])) continue;
    return Error{
        Code::kInvalid,
        fmt::format("the logit of token {} after position {} is {}, wanted a number; a weight of "
                    "this checkpoint is probably NaN or infinite",
                    id, position, logits[id])};
  }
  return Ok{};
}

}  // namespace

Scorer::Scorer(Runtime& runtime, TokenMask mask, bool trace)
    : runtime_(runtime), mask_(std::move(mask)), tracing_(trace) {
  constexpr int kMaxRows = 64;
  rows_ = std::min(kMaxRows, runtime.chunk());
  for (int i = 0; i < runtime.n_blocks(); ++i) block_table_.push_back(i);
  for (int i = 0; i < rows_; ++i) logits_rows_.push_back(i);
  logits_.resize(static_cast<size_t>(rows_) * mask_.size());
}

Result<std::span<const double>> Scorer::score(
    std::span<const int32_t> tokens, const std::function<bool(size_t done)>& go_on,
    const std::function<void(const ScoredPosition&)>& on_position) {
  const size_t vocab = mask_.size();
  log_probabilities_.clear();
  for (size_t done = 0; done < tokens.size();) {
    if (!go_on(done)) return Error{Code::kCancelled, "stopped"};
    const size_t n = std::min(tokens.size() - done, static_cast<size_t>(rows_));
    const SequenceSpan span{.first_row = 0,
                            .n_rows = static_cast<int>(n),
                            .first_position = static_cast<int>(done),
                            .blocks = block_table_};
    const Batch batch{.tokens = tokens.subspan(done, n),
                      .sequences = {&span, 1},
                      .logits_rows = std::span<const int32_t>(logits_rows_).first(n)};
    const std::span<float> logits = std::span<float>(logits_).first(n * vocab);
    runtime_.model().forward(batch, logits, tracing_ ? &trace_ : nullptr);
    for (size_t row = 0; row < n; ++row) {
      on_position({.index = static_cast<int>(done + row),
                   .token = tokens[done + row],
                   .log_probabilities = log_probabilities_,
                   .trace = tracing_ ? &trace_ : nullptr,
                   .trace_row = static_cast<int>(row)});
      const std::span<const float> row_logits = logits.subspan(row * vocab, vocab);
      if (Result<Ok> finite = check_row(row_logits, mask_, done + row); !finite)
        return finite.error();
      log_softmax(row_logits, mask_, log_probabilities_);
    }
    done += n;
  }
  return std::span<const double>(log_probabilities_);
}

}  // namespace minim
