// The flags that say where the cache is kept and how much of it.
#pragma once

#include <optional>
#include <string>

#include "apps/arguments.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/kv_tiers.h"
#include "engine/runtime.h"

namespace minim {

// --kv-cache-gb as RuntimeOptions::kv_bytes; empty where it is not given.
std::optional<uint64_t> cache_size_flag(const Arguments& arguments);
// --kv-host-gb, --kv-disk, --kv-disk-gb. The error is one of usage: a size without a directory, a
// directory without a name.
Result<KvTierOptions> tier_flags(const Arguments& arguments);
// Says what is wrong with the disk level, if anything: answers do not suffer, later runs will.
void warn_of_trouble(const Engine& engine);
// "cache: 1.5 GiB in 300 blocks, 38400 tokens of nvfp4"
std::string cache_line(const Runtime& runtime);

}  // namespace minim
