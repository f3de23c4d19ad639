// Asks the rules of several replies what may come next, while the forward pass runs.
#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "engine/request.h"

namespace minim {

// One thread, asleep between steps. Timing decides nothing: what finish() leaves is what the rules
// would have said at start().
class RulesWorker {
 public:
  struct Question {
    TokenRules* rules = nullptr;
    std::span<const uint32_t> allowed;  // the answer
  };

  // kExhausted when the system refuses the thread.
  static Result<std::unique_ptr<RulesWorker>> create();
  ~RulesWorker();
  RulesWorker(const RulesWorker&) = delete;
  RulesWorker& operator=(const RulesWorker&) = delete;

  // Begins to answer; until finish() the questions and their rules belong to the worker.
  void start(std::span<Question> questions);
  // Waits for the answers; nothing to do when nothing was started.
  void finish();

 private:
  struct Shared;
  explicit RulesWorker(std::unique_ptr<Shared> shared);
  std::unique_ptr<Shared> shared_;
};

}  // namespace minim
