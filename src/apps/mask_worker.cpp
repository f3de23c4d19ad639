// A mask takes microseconds where its state was seen before and milliseconds where not; a forward
// pass takes longer, so behind one it costs nothing. One thread sleeps on a condition for as long
// as the reply lasts. A thread a token lost, it costs more than most masks; so did the device's
// pool, which is busy at that very moment.
#include "apps/mask_worker.h"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/check.h"

namespace minim {

struct MaskWorker::Shared {
  enum class State { kIdle, kWanted, kReady, kEnd };

  explicit Shared(OutputConstraint& owner) : constraint(owner) {}

  void run() {
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return state == State::kWanted || state == State::kEnd; });
      if (state == State::kEnd) return;
      lock.unlock();
      const TokenBits* computed = constraint.allowed();
      lock.lock();
      result = computed;
      // The owner may have given up in the meantime.
      if (state == State::kEnd) return;
      state = State::kReady;
      changed.notify_all();
    }
  }

  OutputConstraint& constraint;
  std::mutex mutex;
  std::condition_variable changed;
  State state = State::kIdle;
  const TokenBits* result = nullptr;
  std::thread thread;
};

MaskWorker::MaskWorker(std::unique_ptr<Shared> shared) : shared_(std::move(shared)) {}

Result<std::unique_ptr<MaskWorker>> MaskWorker::create(OutputConstraint& constraint) {
  auto shared = std::make_unique<Shared>(constraint);
  try {
    shared->thread = std::thread([raw = shared.get()] { raw->run(); });
  } catch (const std::system_error& refused) {
    return Error{Code::kExhausted, fmt::format("the system refused a thread for structured output: "
                                               "{}",
                                               refused.code().message())};
  }
  return std::unique_ptr<MaskWorker>(new MaskWorker(std::move(shared)));
}

MaskWorker::~MaskWorker() {
  {
    const std::lock_guard<std::mutex> lock(shared_->mutex);
    shared_->state = Shared::State::kEnd;
  }
  shared_->changed.notify_all();
  shared_->thread.join();
}

void MaskWorker::start() {
  {
    const std::lock_guard<std::mutex> lock(shared_->mutex);
    CHECK(shared_->state == Shared::State::kIdle);
    shared_->state = Shared::State::kWanted;
  }
  shared_->changed.notify_all();
}

const TokenBits* MaskWorker::finish() {
  std::unique_lock<std::mutex> lock(shared_->mutex);
  CHECK(shared_->state == Shared::State::kWanted || shared_->state == Shared::State::kReady);
  shared_->changed.wait(lock, [this] { return shared_->state == Shared::State::kReady; });
  shared_->state = Shared::State::kIdle;
  return shared_->result;
}

}  // namespace minim
