// One thread owns sequences, blocks and the cache; other threads reach it through the inbox alone,
// and it reaches them through tickets. What other threads may read (statistics, the estimated wait)
// is a copy made after each step.
//
// A step computes each planned row once and then treats the sequences one by one; drawing is the
// only part of that which is worth sharing among threads, since a row of logits has 200,000
// columns.
#include "engine/engine_loop.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "engine/reply.h"
#include "engine/ticket_state.h"

namespace minim {
namespace {

using Clock = Sequence::Clock;

constexpr int kMoreLogits = 64;  // rows of a step, for log-probabilities of prompts
constexpr size_t kNoQuestion = SIZE_MAX;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

SchedulerLimits limits_of(const Runtime& runtime, const EngineOptions& options) {
  const int max_rows = runtime.max_rows();
  return {.max_rows = max_rows,
          .max_chunk = std::min(runtime.chunk(), max_rows),
          .max_sequences = std::min(options.max_sequences, max_rows),
          .max_logits = std::min(options.max_sequences, max_rows) + kMoreLogits,
          .decode_slack = options.decode_slack};
}

Result<Ok> check_request(const GenerateRequest& request, const Runtime& runtime) {
  const size_t n = request.prompt.size();
  if (n == 0) return Error{Code::kInvalid, "the prompt has no tokens, wanted at least one"};
  if (n > static_cast<size_t>(runtime.context())) {
    return Error{Code::kExhausted,
                 fmt::format("the prompt has {} tokens, the context {}; a larger --context or a "
                             "shorter prompt helps",
                             n, runtime.context())};
  }
  Result<Ok> tokens = check_tokens(request.prompt, runtime.config().vocab);
  if (!tokens) return tokens;
  const auto range = [](const char* name, int64_t value, int64_t low, int64_t high) -> Result<Ok> {
    if (value >= low && value <= high) return Ok{};
    return Error{Code::kInvalid,
                 fmt::format("{} is {}, allowed is {} to {}", name, value, low, high)};
  };
  constexpr int64_t kMany = int64_t{1} << 40;
  for (const Result<Ok>& checked :
       {range("n", request.n, 1, 128), range("max_tokens", request.max_tokens, 0, kMany),
        range("min_tokens", request.min_tokens, 0, kMany),
        range("logprobs", request.logprobs, -1, 20),
        range("prompt_logprobs", request.prompt_logprobs, -1, 20)}) {
    if (!checked) return checked;
  }
  return check_sampling(request.sampling, runtime.config().vocab);
}

}  // namespace

EngineLoop::EngineLoop(Runtime& runtime, EngineOptions options, std::string scope,
                       std::unique_ptr<KvTiers> tiers)
    : runtime_(runtime),
      options_(std::move(options)),
      cache_(runtime.n_blocks(), std::move(scope), std::move(tiers)),
      scheduler_(limits_of(runtime, options_), cache_) {
  tokens_.reserve(static_cast<size_t>(runtime.max_rows()));
  publish();
}

EngineLoop::~EngineLoop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  bell_.notify_all();
  if (thread_.joinable()) thread_.join();
  receive();
  while (!scheduler_.sequences().empty()) {
    Sequence& last = *scheduler_.sequences().back();
    end_reply(last, Finish::kCancelled);
    scheduler_.remove(last);
  }
}

// ---- any thread

BlockKey EngineLoop::root_of(const GenerateRequest& request) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return root_key({.cache = cache_.scope() + epoch_, .adapter = "", .salt = request.salt});
}

Result<EngineLoop::Replies> EngineLoop::make_replies(
    const std::shared_ptr<const GenerateRequest>& request) const {
  const auto ticket = std::make_shared<TicketState>(request->n);
  const BlockKey root = root_of(*request);
  const std::vector<BlockKey> keys = chain_keys(root, request->prompt);
  const Clock::time_point now = Clock::now();
  Sampler sampler(request->sampling, runtime_.config().vocab, options_.token_mask);
  sampler.observe_prompt(request->prompt);
  Replies replies;
  for (int reply = 0; reply < request->n; ++reply) {
    auto sequence = std::make_unique<Sequence>(request, reply, sampler.fork(reply));
    sequence->ticket = ticket;
    sequence->tokens = request->prompt;
    sequence->n_prompt = sequence->n_tokens();
    sequence->root = root;
    sequence->keys = keys;
    sequence->submitted = sequence->admitted = now;
    if (request->rules) {
      Result<std::unique_ptr<TokenRules>> rules = request->rules(reply);
      if (!rules) return rules.error();
      sequence->rules = *std::move(rules);
    }
    begin_reply(*sequence, runtime_.context());
    replies.push_back(std::move(sequence));
  }
  return replies;
}

Result<Ticket> EngineLoop::submit(GenerateRequest request) {
  Result<Ok> checked = check_request(request, runtime_);
  if (!checked) return checked.error();
  Result<Replies> replies =
      make_replies(std::make_shared<const GenerateRequest>(std::move(request)));
  if (!replies) return replies.error();
  Ticket ticket(replies->front()->ticket);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const size_t waiting = inbox_.size() + static_cast<size_t>(published_.waiting);
    if (waiting >= static_cast<size_t>(options_.max_queue)) {
      return Error{Code::kBusy,
                   fmt::format("{} requests are waiting, the queue holds {}; there "
                               "should be room in about {:.0f} s",
                               waiting, options_.max_queue, std::max(1.0, wait_seconds_))};
    }
    for (std::unique_ptr<Sequence>& sequence : *replies) {
      sequence->id = next_id_++;
      inbox_.push_back(std::move(sequence));
    }
  }
  bell_.notify_all();
  return ticket;
}

Result<Ok> EngineLoop::start() {
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& refused) {
    return Error{Code::kExhausted, fmt::format("the system refused a thread for the engine: {}",
                                               refused.code().message())};
  }
  return Ok{};
}

EngineStats EngineLoop::stats() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return published_;
}

double EngineLoop::estimated_wait_seconds() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return wait_seconds_;
}

void EngineLoop::check_invariants() const { cache_.check_invariants(scheduler_.sequences()); }

// ---- the engine's thread

void EngineLoop::run() {
  while (true) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (scheduler_.sequences().empty() && !cache_.is_transferring()) {
        bell_.wait(lock, [this] { return stopping_ || !inbox_.empty(); });
      }
      if (stopping_) return;
    }
    step(true);
  }
}

void EngineLoop::receive() {
  Replies arrived;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    arrived.swap(inbox_);
    published_.waiting += static_cast<int>(arrived.size());
  }
  for (std::unique_ptr<Sequence>& sequence : arrived) {
    sequence->set_root(root_of(*sequence->request));  // forget() may have come between
    scheduler_.add(std::move(sequence));
  }
}

// Copies in host memory and on disk keep their keys, which nobody asks for any more. What is
// half computed begins anew, or old and new weights would mix under the new keys.
void EngineLoop::forget() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    epoch_ = fmt::format(" epoch={}-{}-{}", getpid(), now.count(), ++n_epochs_);
  }
  scheduler_.restart_all();
  cache_.forget_all();
  for (const std::unique_ptr<Sequence>& sequence : scheduler_.sequences()) {
    sequence->set_root(root_of(*sequence->request));
  }
}

void EngineLoop::finish(Sequence& sequence) {
  const bool cancelled = sequence.ending == Finish::kCancelled;
  ++(cancelled ? stats_.cancelled : stats_.finished);
  scheduler_.remove(sequence, sequence.ending == Finish::kError);
}

// Those whose owner has gone, and those whose time is over.
void EngineLoop::end_overdue() {
  const Clock::time_point now = Clock::now();
  std::vector<Sequence*> over;
  for (const std::unique_ptr<Sequence>& sequence : scheduler_.sequences()) {
    const auto& deadline = sequence->request->deadline;
    if (sequence->ticket->cancelled.load(std::memory_order_relaxed)) {
      sequence->ending = Finish::kCancelled;
    } else if (deadline && now >= *deadline) {
      sequence->ending = Finish::kDeadline;
    } else {
      continue;
    }
    over.push_back(sequence.get());
  }
  for (Sequence* sequence : over) {
    end_reply(*sequence, *sequence->ending);
    finish(*sequence);
  }
}

bool EngineLoop::step(bool wait) {
  const Clock::time_point start = Clock::now();
  receive();
  cache_.poll(scheduler_.sequences(), false);
  end_overdue();
  if (forget_.exchange(false)) forget();
  const std::vector<PlannedRows>& plan = scheduler_.plan();
  {
    // Before anything of this step is told: who reacts to an end finds the place that it left.
    const std::lock_guard<std::mutex> lock(mutex_);
    published_.waiting = scheduler_.n_waiting();
  }
  if (plan.empty()) {
    CHECK(scheduler_.sequences().empty() || cache_.is_transferring(), "nothing can run");
    if (wait && cache_.is_transferring()) cache_.poll(scheduler_.sequences(), true);
    publish();
    return wait && !scheduler_.sequences().empty();
  }
  build_batch(plan);
  start_rules(plan);
  const Batch batch{.tokens = tokens_, .sequences = spans_, .logits_rows = logits_rows_};
  const size_t n_logits = logits_rows_.size() * static_cast<size_t>(runtime_.config().vocab);
  if (logits_.size() < n_logits) logits_.resize(n_logits);
  const double planning = seconds_since(start);
  const uint64_t read_before = runtime_.device().bytes_read();
  const Clock::time_point forward = Clock::now();
  runtime_.model().forward(batch, std::span<float>(logits_).first(n_logits));
  const double forward_seconds = seconds_since(forward);
  stats_.step_bytes = runtime_.device().bytes_read() - read_before;
  if (rules_worker_ != nullptr) rules_worker_->finish();
  const Clock::time_point drawing = Clock::now();
  draw(plan);
  const double draw_seconds = seconds_since(drawing);
  const Clock::time_point telling = Clock::now();
  note_step(plan, seconds_since(start));
  scheduler_.commit(seconds_since(start));
  tell_all(plan);
  DCHECK((check_invariants(), true));
  stats_.forward_seconds += forward_seconds;
  stats_.sample_seconds += draw_seconds;
  stats_.schedule_seconds += planning + seconds_since(telling);
  publish();
  return true;
}

void EngineLoop::build_batch(const std::vector<PlannedRows>& plan) {
  tokens_.clear();
  spans_.clear();
  logits_rows_.clear();
  first_logits_.clear();
  for (const PlannedRows& rows : plan) {
    const Sequence& sequence = *rows.sequence;
    const int first_row = static_cast<int>(tokens_.size());
    const auto from = sequence.tokens.begin() + sequence.n_computed;
    tokens_.insert(tokens_.end(), from, from + rows.n_rows);
    spans_.push_back({.first_row = first_row,
                      .n_rows = rows.n_rows,
                      .first_position = sequence.n_computed,
                      .blocks = sequence.blocks});
    first_logits_.push_back(logits_rows_.size());
    for (int i = rows.n_rows - rows.n_logits; i < rows.n_rows; ++i) {
      logits_rows_.push_back(first_row + i);
    }
  }
}

void EngineLoop::start_rules(const std::vector<PlannedRows>& plan) {
  questions_.clear();
  question_of_.assign(plan.size(), kNoQuestion);
  for (size_t i = 0; i < plan.size(); ++i) {
    const Sequence& sequence = *plan[i].sequence;
    const bool draws = !sequence.ending && sequence.n_uncomputed() == plan[i].n_rows;
    if (!draws || sequence.rules == nullptr) continue;
    question_of_[i] = questions_.size();
    questions_.push_back({.rules = sequence.rules.get(), .allowed = {}});
  }
  if (questions_.empty()) return;
  if (rules_worker_ == nullptr) {
    Result<std::unique_ptr<RulesWorker>> worker = RulesWorker::create();
    if (!worker) {  // then on this thread, in front of the forward pass
      for (RulesWorker::Question& question : questions_) {
        question.allowed = question.rules->allowed();
      }
      return;
    }
    rules_worker_ = *std::move(worker);
  }
  rules_worker_->start(questions_);
}

// Each item touches its own sequence only.
void EngineLoop::draw(const std::vector<PlannedRows>& plan) {
  const size_t vocab = static_cast<size_t>(runtime_.config().vocab);
  runtime_.device().for_each(plan.size(), [&](size_t i) {
    Sequence& sequence = *plan[i].sequence;
    const int end = sequence.n_computed + plan[i].n_rows;
    for (int row = 0; row < plan[i].n_logits; ++row) {
      const int position = end - plan[i].n_logits + row;
      const std::span<const float> logits = std::span<const float>(logits_).subspan(
          (first_logits_[i] + static_cast<size_t>(row)) * vocab, vocab);
      if (position + 1 < sequence.n_tokens()) {
        keep_logprobs(sequence, position, logits, options_.token_mask);
      } else if (!sequence.ending) {
        const size_t question = question_of_[i];
        draw_token(
            sequence, logits,
            question == kNoQuestion ? std::span<const uint32_t>() : questions_[question].allowed,
            options_.token_mask, runtime_.context());
      }
    }
  });
}

void EngineLoop::tell_all(const std::vector<PlannedRows>& plan) {
  for (const PlannedRows& rows : plan) {
    const bool was_started = rows.sequence->started;
    const bool over = tell(*rows.sequence);
    if (!was_started && rows.sequence->started) {
      stats_.cached_tokens += static_cast<uint64_t>(rows.sequence->usage.cached_tokens);
    }
    if (over) finish(*rows.sequence);
  }
}

void EngineLoop::note_step(const std::vector<PlannedRows>& plan, double seconds) {
  ++stats_.steps;
  stats_.step_prefill_rows = stats_.step_decode_rows = 0;
  for (const PlannedRows& rows : plan) {
    (rows.sequence->is_decoding() ? stats_.step_decode_rows : stats_.step_prefill_rows) +=
        rows.n_rows;
  }
  stats_.prefill_rows += static_cast<uint64_t>(stats_.step_prefill_rows);
  stats_.decode_rows += static_cast<uint64_t>(stats_.step_decode_rows);
  stats_.step_seconds = seconds;
}

void EngineLoop::publish() {
  stats_.running = scheduler_.n_running();
  stats_.waiting = scheduler_.n_waiting();
  stats_.n_blocks = cache_.pool().n_blocks();
  stats_.free_blocks = cache_.pool().n_free();
  stats_.preemptions = scheduler_.n_preemptions();
  stats_.tiers = cache_.tier_stats();
  const std::lock_guard<std::mutex> lock(mutex_);
  published_ = stats_;
  wait_seconds_ = scheduler_.estimated_wait_seconds();
}

}  // namespace minim
