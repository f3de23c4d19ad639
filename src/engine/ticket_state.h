// What a ticket and the engine share.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "engine/request.h"

namespace minim {

struct TicketState {
  explicit TicketState(int n_replies) : n_unfinished(n_replies) {}

  void push(TokenEvent event);

  std::atomic<bool> cancelled{false};

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<TokenEvent> events;
  int n_unfinished;  // replies whose kFinished is not in `events` yet
};

}  // namespace minim
