// What doctor finds in a model folder. Never fails: everything that is wrong becomes a line.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "engine/runtime.h"
#include "model/config.h"

namespace minim {

struct KvBytesPerToken {
  size_t k = 0, v = 0, index = 0;
  size_t total() const { return k + v + index; }
};

struct Examination {
  std::vector<std::string> problems;  // each one stops the model from running
  std::vector<std::string> notes;     // known and left alone, or absent without harm
  std::vector<std::string> unknown;   // tensors that no rule recognises
  std::optional<Config> config;
  size_t weights_bytes = 0, vision_bytes = 0;
  KvBytesPerToken kv;
  KvFormats formats;
  int context = 0;
  size_t cache_bytes = 0;  // of that context
};

Examination examine_model(const RuntimeOptions& options);

}  // namespace minim
