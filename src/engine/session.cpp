// A Session owns blocks 0, 1, 2, ... so its block table never changes. Its cache is valid for
// exactly `tokens_`: a prompt that shares a prefix keeps it and overwrites what follows. That is
// allowed because a position's cache bytes depend on the tokens up to it alone, and readers never
// look behind their own position. The last token of a prompt is always run again, since logits are
// not cached.
#include "engine/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace minim {

Session::Session(Runtime& runtime) : runtime_(runtime) {
  tokens_.reserve(static_cast<size_t>(runtime.context()));
  block_table_.resize(static_cast<size_t>(runtime.n_blocks()));
  for (size_t i = 0; i < block_table_.size(); ++i) block_table_[i] = static_cast<int32_t>(i);
  logits_.resize(static_cast<size_t>(runtime.config().vocab));
}

namespace {

// One step of one sequence; logits of the last row when wanted.
void step(Model& model, std::span<const int32_t> tokens, int first_position,
          std::span<const int32_t> blocks, std::span<float> logits) {
  const int n_rows = static_cast<int>(tokens.size());
  const SequenceSpan span{
      .first_row = 0, .n_rows = n_rows, .first_position = first_position, .blocks = blocks};
  const std::array<int32_t, 1> last = {n_rows - 1};
  const Batch batch{.tokens = tokens,
                    .sequences = {&span, 1},
                    .logits_rows = std::span<const int32_t>(last).first(logits.empty() ? 0 : 1)};
  model.forward(batch, logits);
}

}  // namespace

Result<Ok> Session::prefill(std::span<const int32_t> tokens, const ProgressSink& progress,
                            const std::atomic<bool>* stop) {
  if (tokens.empty()) return Error{Code::kInvalid, "the prompt has no tokens, wanted at least one"};
  const size_t n = tokens.size();
  if (n > static_cast<size_t>(runtime_.context())) {
    return Error{Code::kExhausted,
                 fmt::format("the prompt has {} tokens, the context {}; a larger --context or a "
                             "shorter prompt helps",
                             n, runtime_.context())};
  }
  Result<Ok> checked = check_tokens(tokens, runtime_.config().vocab);
  if (!checked) return checked;

  const size_t shared = static_cast<size_t>(
      std::mismatch(tokens_.begin(), tokens_.end(), tokens.begin(), tokens.end()).first -
      tokens_.begin());
  const size_t reused = std::min(shared, n - 1);
  reused_ = static_cast<int>(reused);
  tokens_.resize(reused);
  for (size_t done = reused; done < n;) {
    const bool stopped = stop != nullptr && stop->load(std::memory_order_relaxed);
    if (stopped || (progress.report && !progress.report("prefill", done - reused, n - reused))) {
      return Error{Code::kCancelled, fmt::format("stopped after {} of {} prompt tokens", done, n)};
    }
    const size_t rows = std::min(n - done, static_cast<size_t>(runtime_.chunk()));
    const bool last = done + rows == n;
    step(runtime_.model(), tokens.subspan(done, rows), static_cast<int>(done), block_table_,
         last ? std::span<float>(logits_) : std::span<float>());
    tokens_.insert(tokens_.end(), tokens.begin() + static_cast<ptrdiff_t>(done),
                   tokens.begin() + static_cast<ptrdiff_t>(done + rows));
    done += rows;
  }
  if (progress.report) progress.report("prefill", n - reused, n - reused);
  return Ok{};
}

Result<Ok> Session::append(int32_t token) {
  const std::array<int32_t, 1> one = {token};
  return append(one);
}

Result<Ok> Session::append(std::span<const int32_t> tokens) {
  CHECK(!tokens.empty());
  const size_t room = static_cast<size_t>(runtime_.context() - length());
  if (tokens.size() > room) {
    return Error{Code::kExhausted,
                 room == 0 ? fmt::format("the context of {} tokens is full", runtime_.context())
                           : fmt::format("the context of {} tokens has room for {}, not for {}",
                                         runtime_.context(), room, tokens.size())};
  }
  Result<Ok> checked = check_tokens(tokens, runtime_.config().vocab);
  if (!checked) return checked;
  while (!tokens.empty()) {
    const std::span<const int32_t> rows =
        tokens.first(std::min(tokens.size(), static_cast<size_t>(runtime_.chunk())));
    tokens = tokens.subspan(rows.size());
    step(runtime_.model(), rows, length(), block_table_,
         tokens.empty() ? std::span<float>(logits_) : std::span<float>());
    tokens_.insert(tokens_.end(), rows.begin(), rows.end());
  }
  return Ok{};
}

}  // namespace minim
