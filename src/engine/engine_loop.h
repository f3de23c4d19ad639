// The engine's inside: an inbox for other threads, and steps on one thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "engine/rules_worker.h"
#include "engine/scheduler.h"
#include "engine/sequence_cache.h"

namespace minim {

class EngineLoop {
 public:
  EngineLoop(Runtime& runtime, EngineOptions options, std::string scope,
             std::unique_ptr<KvTiers> tiers);
  ~EngineLoop();

  Result<Ticket> submit(GenerateRequest request);
  Result<Ok> start();
  bool step(bool wait);
  EngineStats stats() const;
  double estimated_wait_seconds() const;
  void forget_cache() { forget_.store(true); }
  void check_invariants() const;

 private:
  using Replies = std::vector<std::unique_ptr<Sequence>>;

  Result<Replies> make_replies(const std::shared_ptr<const GenerateRequest>& request) const;
  BlockKey root_of(const GenerateRequest& request) const;
  void forget();
  void run();
  void receive();
  void end_overdue();
  void build_batch(const std::vector<PlannedRows>& plan);
  void start_rules(const std::vector<PlannedRows>& plan);
  void draw(const std::vector<PlannedRows>& plan);
  void tell_all(const std::vector<PlannedRows>& plan);
  void finish(Sequence& sequence);
  void note_step(const std::vector<PlannedRows>& plan, double seconds);
  void publish();

  Runtime& runtime_;
  EngineOptions options_;
  SequenceCache cache_;
  Scheduler scheduler_;
  std::unique_ptr<RulesWorker> rules_worker_;
  std::atomic<bool> forget_{false};

  // The step that runs.
  std::vector<int32_t> tokens_, logits_rows_;
  std::vector<SequenceSpan> spans_;
  std::vector<float> logits_;         // [rows with logits, vocab]
  std::vector<size_t> first_logits_;  // of a planned entry, in rows of logits_
  std::vector<RulesWorker::Question> questions_;
  std::vector<size_t> question_of_;  // of a planned entry; SIZE_MAX: none

  mutable std::mutex mutex_;  // of the inbox and of what others may read
  std::condition_variable bell_;
  Replies inbox_;
  int n_epochs_ = 0;
  std::string epoch_;  // of the weights, a part of every key: changes when they do
  uint64_t next_id_ = 0;
  bool stopping_ = false;
  EngineStats stats_;  // the loop's own
  EngineStats published_;
  double wait_seconds_ = 0;
  std::thread thread_;
};

}  // namespace minim
