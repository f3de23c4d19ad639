// Computes what the next token may be while the forward pass runs.
#pragma once

#include <memory>

#include "base/result.h"
#include "text/output_constraint.h"

namespace minim {

// One thread for a reply, asleep between tokens. Timing decides nothing: what finish() gives is
// what constraint.allowed() would have given at start().
class MaskWorker {
 public:
  // The constraint must outlive the worker. kExhausted when the system refuses the thread.
  static Result<std::unique_ptr<MaskWorker>> create(OutputConstraint& constraint);
  ~MaskWorker();
  MaskWorker(const MaskWorker&) = delete;
  MaskWorker& operator=(const MaskWorker&) = delete;

  // Begins; until finish() the constraint belongs to the worker.
  void start();
  // Waits for what start() began. As OutputConstraint::allowed().
  const TokenBits* finish();

 private:
  struct Shared;
  explicit MaskWorker(std::unique_ptr<Shared> shared);
  std::unique_ptr<Shared> shared_;
};

}  // namespace minim
