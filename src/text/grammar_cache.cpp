// Least recently used goes first. Sizes are asked anew at every insertion, because a compiled
// grammar grows while it is used (its masks are made on demand).
#include "text/grammar_cache.h"

#include <utility>

namespace minim {

GrammarCache::Value GrammarCache::find(const std::string& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->value;
}

void GrammarCache::insert(const std::string& key, Value value) {
  entries_.push_front({key, std::move(value)});
  by_key_[key] = entries_.begin();
  size_t total = 0;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    total += entry->value->bytes();
    if (total <= budget_ || entry == entries_.begin()) {
      ++entry;
      continue;
    }
    by_key_.erase(entry->key);
    entry = entries_.erase(entry);
  }
}

Result<GrammarCache::Value> GrammarCache::get(const std::string& key, const Make& make) {
  std::unique_lock lock(mutex_);
  if (Value value = find(key)) return value;
  if (const auto flight = flights_.find(key); flight != flights_.end()) {
    const std::shared_ptr<Flight> other = flight->second;
    landed_.wait(lock, [&] { return other->landed; });
    return other->result;
  }
  const auto flight = std::make_shared<Flight>();
  flights_[key] = flight;
  lock.unlock();
  Result<Value> result = Error{Code::kExhausted, "out of memory while compiling a grammar"};
  try {
    result = make();
  } catch (const std::bad_alloc&) {
    // Those who wait must hear of it.
  }
  lock.lock();
  if (result) insert(key, *result);
  flight->result = result;
  flight->landed = true;
  flights_.erase(key);
  landed_.notify_all();
  return result;
}

size_t GrammarCache::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace minim
