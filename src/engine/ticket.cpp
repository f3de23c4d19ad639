// One lock a ticket: the engine's thread appends, the owner's takes. What waits is bounded by the
// reply's own length, so the engine never waits for a slow reader.
#include "engine/ticket.h"

#include <utility>

#include "engine/ticket_state.h"

namespace minim {

void TicketState::push(TokenEvent event) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (event.kind == TokenEvent::Kind::kFinished) --n_unfinished;
    events.push_back(std::move(event));
  }
  changed.notify_all();
}

Ticket::Ticket(std::shared_ptr<TicketState> state) : state_(std::move(state)) {}
Ticket::Ticket(Ticket&&) noexcept = default;
Ticket& Ticket::operator=(Ticket&& other) noexcept {
  if (this != &other) {
    if (state_ != nullptr) cancel();
    state_ = std::move(other.state_);
  }
  return *this;
}
Ticket::~Ticket() {
  if (state_ != nullptr) cancel();
}

std::optional<TokenEvent> Ticket::next(std::optional<std::chrono::milliseconds> at_most) {
  std::unique_lock<std::mutex> lock(state_->mutex);
  const auto something = [this] { return !state_->events.empty() || state_->n_unfinished == 0; };
  if (at_most) {
    state_->changed.wait_for(lock, *at_most, something);
  } else {
    state_->changed.wait(lock, something);
  }
  if (state_->events.empty()) return std::nullopt;
  TokenEvent event = std::move(state_->events.front());
  state_->events.pop_front();
  return event;
}

bool Ticket::done() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->events.empty() && state_->n_unfinished == 0;
}

void Ticket::cancel() { state_->cancelled.store(true, std::memory_order_relaxed); }

const char* finish_name(Finish finish) {
  switch (finish) {
    case Finish::kStop:
      return "stop";
    case Finish::kLength:
      return "length";
    case Finish::kCancelled:
      return "cancelled";
    case Finish::kDeadline:
      return "deadline";
    case Finish::kError:
      return "error";
  }
  return "";
}

const char* cache_miss_name(CacheMiss miss) {
  switch (miss) {
    case CacheMiss::kNone:
      return "none";
    case CacheMiss::kShort:
      return "short";
    case CacheMiss::kNew:
      return "new";
    case CacheMiss::kEvicted:
      return "evicted";
    case CacheMiss::kDamaged:
      return "damaged";
    case CacheMiss::kNotAsked:
      return "not asked";
  }
  return "";
}

}  // namespace minim
