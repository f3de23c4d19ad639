// SHA-256 over length-prefixed fields in one order: files by name, tensors by name. The hash of all
// bytes would be exact and takes minutes for 250 GB; size and time of modification alone miss what
// some tools do when they copy (keep the time) or repair a file in place.
#include "model/weights_identity.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "base/json.h"
#include "base/mapped_file.h"
#include "base/sha256.h"

namespace minim {
namespace {

std::string_view text(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<Ok> add_file(Sha256& hash, const std::string& path, bool required) {
  const Result<std::optional<std::string>> file = read_plain_file(path);
  if (!file) return file.error();
  if (required && !file->has_value()) {
    return Error{Code::kNotFound, fmt::format("there is no {}", path)};
  }
  hash.update_number(file->has_value());
  hash.update_field(file->value_or(""));
  return Ok{};
}

Result<Ok> add_shard(Sha256& hash, const std::string& dir, const Checkpoint::ShardFile& shard) {
  const std::string path = fmt::format("{}/{}", dir, shard.name);
  struct stat status;
  if (stat(path.c_str(), &status) != 0) {
    return Error{Code::kIo, fmt::format("cannot look at {}: {}", path, std::strerror(errno))};
  }
  hash.update_field(shard.name);
  hash.update_number(shard.bytes.size());
  hash.update_number(static_cast<uint64_t>(status.st_mtim.tv_sec));
  hash.update_number(static_cast<uint64_t>(status.st_mtim.tv_nsec));
  uint64_t length = 0;  // of the header, which the checkpoint has checked
  std::memcpy(&length, shard.bytes.data(), sizeof length);
  hash.update_field(text(shard.bytes.first(sizeof length + static_cast<size_t>(length))));
  return Ok{};
}

void add_samples(Sha256& hash, std::span<const uint8_t> data) {
  if (data.size() <= 3 * kIdentitySample) return hash.update_field(text(data));
  const size_t last = data.size() - kIdentitySample;
  for (const size_t at : {size_t{0}, last / 2, last}) {
    hash.update_field(text(data.subspan(at, kIdentitySample)));
  }
}

}  // namespace

Result<std::string> weights_identity(const Checkpoint& checkpoint) {
  Sha256 hash;
  hash.update_field("minim.weights_identity.1");
  const std::string& dir = checkpoint.dir();
  if (Result<Ok> added = add_file(hash, dir + "/config.json", true); !added) return added.error();
  if (Result<Ok> added = add_file(hash, dir + "/hf_quant_config.json", false); !added) {
    return added.error();
  }
  hash.update_number(checkpoint.n_shards());
  for (const Checkpoint::ShardFile& shard : checkpoint.shards()) {
    if (Result<Ok> added = add_shard(hash, dir, shard); !added) return added.error();
  }
  // Or each sample would have the system read megabytes around it.
  for (const Checkpoint::ShardFile& shard : checkpoint.shards()) advise_scattered(shard.bytes);
  for (const std::string_view name : checkpoint.names()) {
    hash.update_field(name);
    add_samples(hash, checkpoint.find(name)->data);
  }
  for (const Checkpoint::ShardFile& shard : checkpoint.shards()) advise_in_order(shard.bytes);
  return to_hex(hash.finish());
}

}  // namespace minim
