// Compiled grammars by a digest of what they were compiled from.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/result.h"
#include "text/grammar_engine.h"

namespace minim {

// Thread-safe. Keys are digests that nobody can make collide: equal keys are equal grammars.
class GrammarCache {
 public:
  using Value = std::shared_ptr<const CompiledGrammar>;
  using Make = std::function<Result<Value>()>;

  // `budget` is for the memory of all; the grammar used last is kept whatever its size. Grammars
  // that a caller holds live on when they fall out.
  explicit GrammarCache(size_t budget) : budget_(budget) {}

  // The value of `key`, made by `make` if it is not there. Of several callers with one key at once,
  // one makes it and the others wait for the same answer. Errors are not kept.
  Result<Value> get(const std::string& key, const Make& make);

  size_t size() const;

 private:
  struct Entry {
    std::string key;
    Value value;
  };
  struct Flight {
    bool landed = false;
    Result<Value> result = Value();
  };

  Value find(const std::string& key);
  void insert(const std::string& key, Value value);

  mutable std::mutex mutex_;
  std::condition_variable landed_;
  const size_t budget_;
  std::list<Entry> entries_;  // used last in front
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
  std::unordered_map<std::string, std::shared_ptr<Flight>> flights_;
};

}  // namespace minim
