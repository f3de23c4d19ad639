// Continuous batching: each step is planned anew from the state of all sequences.
//
// Decoding sequences come first, one row each (more where tokens were forced); the rest of the step
// goes to prompts, in chunks that the pacer allows. A sequence whose block cannot be had takes one
// from the lowest ranked: that one goes back to the queue and keeps its tokens, and what it had
// computed stays findable until its blocks are needed, so that resuming is a hit. The highest
// ranked sequence can always go on, hence everything ends.
//
// Two prompts with the same stem would compute it twice when they run side by side. So a sequence
// that is about to begin a block that another one is computing waits, and finds it sealed later.
#include "engine/scheduler.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "device/kv_layout.h"

namespace minim {
namespace {

bool at_block_edge(const Sequence& sequence) {
  return sequence.n_computed == static_cast<int>(sequence.blocks.size()) * kBlockTokens;
}

bool is_waiting(const Sequence& sequence) { return sequence.state == Sequence::State::kWaiting; }
bool is_prompt(const Sequence& sequence) {
  return sequence.state == Sequence::State::kRunning && !sequence.is_decoding();
}

int blocks_for(int n_tokens) { return (n_tokens + kBlockTokens - 1) / kBlockTokens; }

}  // namespace

Scheduler::Scheduler(const SchedulerLimits& limits, SequenceCache& cache)
    : limits_(limits), cache_(cache), pacer_(limits.decode_slack) {
  CHECK(limits.max_sequences >= 1 && limits.max_rows >= limits.max_chunk && limits.max_chunk >= 1);
  CHECK(limits.max_logits > limits.max_sequences);
}

void Scheduler::add(std::unique_ptr<Sequence> sequence) {
  CHECK(sequence->state == Sequence::State::kWaiting && !sequence->tokens.empty());
  // A client that was away starts level with those that are here, not with a credit.
  const std::string& client = sequence->request->client;
  const bool is_here = std::any_of(sequences_.begin(), sequences_.end(), [&](const auto& other) {
    return other->request->client == client;
  });
  if (!is_here) {
    double least = std::numeric_limits<double>::infinity();
    for (const auto& other : sequences_) {
      least = std::min(least, served_.at(other->request->client));
    }
    double& served = served_[client];
    served = sequences_.empty() ? 0 : std::max(served, least);
  }
  sequences_.push_back(std::move(sequence));
}

int Scheduler::n_waiting() const {
  return static_cast<int>(std::count_if(sequences_.begin(), sequences_.end(),
                                        [](const auto& s) { return is_waiting(*s); }));
}

int Scheduler::n_running() const { return static_cast<int>(sequences_.size()) - n_waiting(); }

const std::vector<PlannedRows>& Scheduler::plan() {
  plan_.clear();
  n_rows_ = n_logits_ = 0;
  admit();
  plan_decoding();
  plan_prompts();
  return plan_;
}

void Scheduler::plan_decoding() {
  std::vector<Sequence*> decoding;
  for (const auto& sequence : sequences_) {
    if (sequence->state == Sequence::State::kRunning && sequence->is_decoding()) {
      decoding.push_back(sequence.get());
    }
  }
  std::sort(decoding.begin(), decoding.end(),
            [](const Sequence* a, const Sequence* b) { return ranks_before(*a, *b); });
  for (Sequence* sequence : decoding) {
    if (sequence->state != Sequence::State::kRunning) continue;  // preempted for another
    const int n = within_logits(*sequence, std::min(sequence->n_uncomputed(), rows_left()));
    if (n > 0 && make_room(*sequence, sequence->n_computed + n)) add_rows(*sequence, n);
  }
}

std::vector<Sequence*> Scheduler::in_fair_order(bool (*wanted)(const Sequence&)) const {
  std::vector<Sequence*> found;
  for (const auto& sequence : sequences_) {
    if (wanted(*sequence)) found.push_back(sequence.get());
  }
  std::sort(found.begin(), found.end(), [this](const Sequence* a, const Sequence* b) {
    if (a->request->priority != b->request->priority) return ranks_before(*a, *b);
    const double x = served_.at(a->request->client), y = served_.at(b->request->client);
    return x != y ? x < y : a->id < b->id;
  });
  return found;
}

// A waiting sequence gets in when there is a place and room for what it will compute next; one that
// outranks those inside makes room when it runs.
void Scheduler::admit() {
  for (Sequence* sequence : in_fair_order(is_waiting)) {
    if (n_running() >= limits_.max_sequences) {
      Sequence* const last = victim_for(*sequence);
      if (last == nullptr || last->request->priority >= sequence->request->priority) return;
      preempt(*last);
    }
    const bool may_take = n_running() == 0 || victim_for(*sequence) != nullptr;
    if (!may_take && blocks_for(sequence->n_due()) > free_blocks()) return;
    sequence->state = Sequence::State::kRunning;
    if (sequence->usage.preemptions == 0) sequence->admitted = Sequence::Clock::now();
    cache_.take_cached(*sequence);
  }
}

// Blocks that nobody has or is about to need.
int Scheduler::free_blocks() const {
  int n = cache_.pool().n_free();
  for (const auto& sequence : sequences_) {
    if (is_waiting(*sequence)) continue;
    n -= std::max(0, blocks_for(sequence->n_due()) - static_cast<int>(sequence->blocks.size()));
  }
  return n;
}

void Scheduler::plan_prompts() {
  const int before = n_rows_;  // all of them decode
  const int most = pacer_.allowed(before, std::min(rows_left(), limits_.max_chunk));
  for (Sequence* sequence : in_fair_order(is_prompt)) {
    const int left = most - (n_rows_ - before);
    if (left <= 0) return;
    if (sequence->state != Sequence::State::kRunning) continue;  // preempted for another
    plan_prompt(*sequence, left);
  }
}

void Scheduler::plan_prompt(Sequence& sequence, int most_rows) {
  if (at_block_edge(sequence)) cache_.take_cached(sequence);
  if (sequence.state != Sequence::State::kRunning || waits_for_another(sequence)) return;
  int n = within_logits(sequence, std::min(sequence.n_uncomputed(), most_rows));
  // Whole blocks, so that the next chunk starts at an edge.
  const int over = (sequence.n_computed + n) % kBlockTokens;
  if (n < sequence.n_uncomputed() && n > over) n -= over;
  if (n > 0 && make_room(sequence, sequence.n_computed + n)) add_rows(sequence, n);
}

bool Scheduler::waits_for_another(const Sequence& sequence) const {
  if (!at_block_edge(sequence) || sequence.wants_prompt_logprobs()) return false;
  const BlockKey* const key = cache_.next_key_of(sequence);
  if (key == nullptr) return false;
  return std::any_of(sequences_.begin(), sequences_.end(), [&](const auto& other) {
    if (other.get() == &sequence || !is_prompt(*other)) return false;
    const bool begun = !at_block_edge(*other);
    const bool planned = std::any_of(plan_.begin(), plan_.end(), [&](const PlannedRows& rows) {
      return rows.sequence == other.get();
    });
    const BlockKey* const its = begun || planned ? cache_.next_key_of(*other) : nullptr;
    return its != nullptr && *its == *key;
  });
}

int Scheduler::within_logits(const Sequence& sequence, int n_rows) const {
  const int without = std::max(0, sequence.first_logits() - sequence.n_computed);
  return std::min(n_rows, without + 1 + limits_.max_logits - limits_.max_sequences - n_logits_);
}

void Scheduler::add_rows(Sequence& sequence, int n_rows) {
  const int end = sequence.n_computed + n_rows;
  const int n_logits = std::clamp(end - sequence.first_logits(), 0, n_rows);
  plan_.push_back({.sequence = &sequence, .n_rows = n_rows, .n_logits = n_logits});
  n_rows_ += n_rows;
  n_logits_ += std::max(0, n_logits - 1);
}

// The lowest ranked sequence with blocks that ranks behind this one.
Sequence* Scheduler::victim_for(const Sequence& sequence) const {
  Sequence* victim = nullptr;
  for (const auto& other : sequences_) {
    if (other->state != Sequence::State::kRunning || !ranks_before(sequence, *other)) continue;
    if (victim == nullptr || ranks_before(*victim, *other)) victim = other.get();
  }
  return victim;
}

bool Scheduler::make_room(Sequence& sequence, int n_tokens) {
  while (!cache_.grow(sequence, n_tokens)) {
    Sequence* const victim = victim_for(sequence);
    if (victim != nullptr) {
      preempt(*victim);
      continue;
    }
    // Nobody ranks behind. A decoding sequence steps back itself; a prompt waits with what it has,
    // since those ahead of it will finish.
    if (sequence.is_decoding()) preempt(sequence);
    return false;
  }
  return true;
}

void Scheduler::restart_all() {
  for (const auto& sequence : sequences_) {
    if (!is_waiting(*sequence)) preempt(*sequence, true);
  }
}

void Scheduler::preempt(Sequence& sequence, bool worthless) {
  std::erase_if(plan_, [&](const PlannedRows& rows) {
    if (rows.sequence != &sequence) return false;
    n_rows_ -= rows.n_rows;
    n_logits_ -= std::max(0, rows.n_logits - 1);
    return true;
  });
  cache_.release(sequence, worthless);
  sequence.state = Sequence::State::kWaiting;
  ++sequence.usage.preemptions;
  ++n_preemptions_;
}

void Scheduler::commit(double seconds) {
  int n_prompt_rows = 0;
  for (const PlannedRows& rows : plan_) {
    Sequence& sequence = *rows.sequence;
    const bool decoding = sequence.is_decoding();
    sequence.n_computed += rows.n_rows;
    cache_.seal(sequence);
    if (decoding) continue;
    n_prompt_rows += rows.n_rows;
    if (!sequence.started) sequence.n_prompt_rows += rows.n_rows;
    served_.at(sequence.request->client) += rows.n_rows;
  }
  pacer_.observe(n_rows_ - n_prompt_rows, n_prompt_rows, seconds);
}

std::unique_ptr<Sequence> Scheduler::remove(Sequence& sequence, bool worthless) {
  cache_.release(sequence, worthless);
  const auto at = std::find_if(sequences_.begin(), sequences_.end(),
                               [&](const auto& other) { return other.get() == &sequence; });
  CHECK(at != sequences_.end());
  std::unique_ptr<Sequence> owned = std::move(*at);
  sequences_.erase(at);
  std::erase_if(served_, [&](const auto& entry) {
    return std::none_of(sequences_.begin(), sequences_.end(),
                        [&](const auto& other) { return other->request->client == entry.first; });
  });
  return owned;
}

double Scheduler::estimated_wait_seconds() const {
  double rows = 0;
  int running = 0;
  double first_place = std::numeric_limits<double>::infinity();
  for (const auto& sequence : sequences_) {
    if (!sequence->is_decoding()) {
      rows += sequence->n_uncomputed();
      continue;
    }
    ++running;
    const double limit = sequence->request->max_tokens > 0
                             ? static_cast<double>(sequence->request->max_tokens)
                             : sequence->n_generated() + 1.0;
    first_place = std::min(first_place, limit - sequence->n_generated());
  }
  const bool full = running >= limits_.max_sequences;
  return rows * pacer_.seconds_per_prompt_row() +
         (full ? first_place * pacer_.decode_seconds() : 0);
}

}  // namespace minim
