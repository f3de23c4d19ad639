// Who runs in the next step, and with how many rows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/decode_pacer.h"
#include "engine/sequence.h"
#include "engine/sequence_cache.h"

namespace minim {

struct SchedulerLimits {
  int max_rows = 0;       // of a step
  int max_chunk = 0;      // of those, rows of prompts
  int max_sequences = 0;  // that hold blocks
  int max_logits = 0;     // rows of a step that may have logits; more than max_sequences
  double decode_slack = 0;
};

// Rows [sequence.n_computed, + n_rows) of a sequence. Its blocks are there.
struct PlannedRows {
  Sequence* sequence = nullptr;
  int n_rows = 0;
  int n_logits = 0;  // the last of them have logits
};

class Scheduler {
 public:
  // The cache must outlive the scheduler.
  Scheduler(const SchedulerLimits& limits, SequenceCache& cache);

  void add(std::unique_ptr<Sequence> sequence);
  // All that are not finished, in order of arrival.
  const std::vector<std::unique_ptr<Sequence>>& sequences() const { return sequences_; }
  int n_waiting() const;
  int n_running() const;  // loading ones included

  // The rows of the next step, those of decoding sequences first; empty: nothing can run now.
  // Admits, extends by cached blocks, takes blocks and preempts as needed.
  //
  // Order of those that decode, and of who keeps its blocks: priority, then arrival. Prompts: by
  // priority, then the client that has had the fewest rows lately, then arrival.
  const std::vector<PlannedRows>& plan();
  // The step is done: rows are computed, blocks sealed, clients charged.
  void commit(double seconds);

  // Takes a sequence out; its blocks are given back.
  std::unique_ptr<Sequence> remove(Sequence& sequence, bool worthless = false);
  // All go back to the queue, and nothing that they computed is used again.
  void restart_all();
  // Until a request that comes now would start; 0 before anything was measured.
  double estimated_wait_seconds() const;
  uint64_t n_preemptions() const { return n_preemptions_; }

 private:
  void plan_decoding();
  void admit();
  void plan_prompts();
  void plan_prompt(Sequence& sequence, int most_rows);
  bool waits_for_another(const Sequence& sequence) const;
  // As many of n_rows as the step has room for logits.
  int within_logits(const Sequence& sequence, int n_rows) const;
  void add_rows(Sequence& sequence, int n_rows);
  int free_blocks() const;
  bool make_room(Sequence& sequence, int n_tokens);
  Sequence* victim_for(const Sequence& sequence) const;
  void preempt(Sequence& sequence, bool worthless = false);
  std::vector<Sequence*> in_fair_order(bool (*wanted)(const Sequence&)) const;
  int rows_left() const { return limits_.max_rows - n_rows_; }

  SchedulerLimits limits_;
  SequenceCache& cache_;
  DecodePacer pacer_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  std::vector<PlannedRows> plan_;
  int n_rows_ = 0;                                  // of plan_
  int n_logits_ = 0;                                // beside one a sequence
  std::unordered_map<std::string, double> served_;  // rows of prompts, by client
  uint64_t n_preemptions_ = 0;
};

}  // namespace minim
