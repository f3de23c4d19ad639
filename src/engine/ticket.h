// The stream between a request's owner and the engine.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "engine/request.h"

namespace minim {

struct TicketState;  // shared with the engine

// Dropping a ticket cancels its request. Any one thread may use it.
class Ticket {
 public:
  explicit Ticket(std::shared_ptr<TicketState> state);
  ~Ticket();
  Ticket(Ticket&&) noexcept;
  Ticket& operator=(Ticket&&) noexcept;

  // The next event, waiting for it; nullopt: all replies have finished and been read, or the time
  // has passed (then done() is false).
  std::optional<TokenEvent> next(std::optional<std::chrono::milliseconds> at_most = std::nullopt);
  bool done() const;
  // Ends all replies of the request within a step: each finishes with kCancelled. Safe on any
  // thread, any number of times.
  void cancel();

 private:
  std::shared_ptr<TicketState> state_;
};

}  // namespace minim
