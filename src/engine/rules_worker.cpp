// A mask takes microseconds where its state was seen before and milliseconds where not; behind a
// forward pass it costs nothing. One thread sleeps on a condition for as long as the engine lives.
// A thread a token lost, it costs more than most masks; so did the device's pool, which is busy at
// that very moment.
#include "engine/rules_worker.h"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/check.h"

namespace minim {

struct RulesWorker::Shared {
  enum class State { kIdle, kWanted, kReady, kEnd };

  void run() {
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return state == State::kWanted || state == State::kEnd; });
      if (state == State::kEnd) return;
      lock.unlock();
      for (Question& question : questions) question.allowed = question.rules->allowed();
      lock.lock();
      // The owner may have given up in the meantime.
      if (state == State::kEnd) return;
      state = State::kReady;
      changed.notify_all();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  State state = State::kIdle;
  std::span<Question> questions;
  std::thread thread;
};

RulesWorker::RulesWorker(std::unique_ptr<Shared> shared) : shared_(std::move(shared)) {}

Result<std::unique_ptr<RulesWorker>> RulesWorker::create() {
  auto shared = std::make_unique<Shared>();
  try {
    shared->thread = std::thread([raw = shared.get()] { raw->run(); });
  } catch (const std::system_error& refused) {
    return Error{Code::kExhausted, fmt::format("the system refused a thread for structured output: "
                                               "{}",
                                               refused.code().message())};
  }
  return std::unique_ptr<RulesWorker>(new RulesWorker(std::move(shared)));
}

RulesWorker::~RulesWorker() {
  {
    const std::lock_guard<std::mutex> lock(shared_->mutex);
    shared_->state = Shared::State::kEnd;
  }
  shared_->changed.notify_all();
  shared_->thread.join();
}

void RulesWorker::start(std::span<Question> questions) {
  if (questions.empty()) return;
  {
    const std::lock_guard<std::mutex> lock(shared_->mutex);
    CHECK(shared_->state == Shared::State::kIdle);
    shared_->questions = questions;
    shared_->state = Shared::State::kWanted;
  }
  shared_->changed.notify_all();
}

void RulesWorker::finish() {
  std::unique_lock<std::mutex> lock(shared_->mutex);
  if (shared_->state == Shared::State::kIdle) return;
  shared_->changed.wait(lock, [this] { return shared_->state == Shared::State::kReady; });
  shared_->state = Shared::State::kIdle;
}

}  // namespace minim
