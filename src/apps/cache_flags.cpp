#include "apps/cache_flags.h"

#include <fmt/format.h>

#include "apps/console.h"
#include "device/kv_layout.h"
#include "engine/memory_budget.h"

namespace minim {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
constexpr double kUsualDiskGib = 16;

uint64_t gib(double n) { return static_cast<uint64_t>(n * kGib); }

}  // namespace

std::optional<uint64_t> cache_size_flag(const Arguments& arguments) {
  if (!arguments.given("kv-cache-gb")) return std::nullopt;
  return gib(arguments.number("kv-cache-gb", 0));
}

Result<KvTierOptions> tier_flags(const Arguments& arguments) {
  KvTierOptions tiers;
  tiers.host_bytes = gib(arguments.number("kv-host-gb", 0));
  tiers.disk_dir = arguments.text("kv-disk");
  if (arguments.given("kv-disk") && tiers.disk_dir.empty()) {
    return Error{Code::kInvalid, "--kv-disk is empty, wanted a directory for the blocks"};
  }
  tiers.disk_bytes = gib(arguments.number("kv-disk-gb", kUsualDiskGib));
  if (arguments.given("kv-disk-gb") && tiers.disk_dir.empty()) {
    return Error{Code::kInvalid, "--kv-disk-gb wants --kv-disk: a directory for the blocks"};
  }
  return tiers;
}

void warn_of_trouble(const Engine& engine) {
  const std::string trouble = engine.stats().tiers.trouble;
  if (!trouble.empty()) warn(trouble);
}

std::string cache_line(const Runtime& runtime) {
  return fmt::format("cache: {} in {} blocks, {} tokens of {}", format_bytes(runtime.cache_bytes()),
                     runtime.n_blocks(), static_cast<int64_t>(runtime.n_blocks()) * kBlockTokens,
                     kv_format_name(runtime.layout().formats.main));
}

}  // namespace minim
