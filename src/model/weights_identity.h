// A name for the weights of a folder, so that what was computed with others is not taken for
// theirs.
#pragma once

#include <string>

#include "base/result.h"
#include "model/checkpoint.h"

namespace minim {

// 64 hexadecimal digits that follow from config.json and hf_quant_config.json, from each shard's
// name, size, time of modification (nanoseconds) and header, and from kIdentitySample bytes at the
// beginning, in the middle and at the end of every tensor (all bytes of one that is no longer than
// three samples). Reads a page or two a tensor: milliseconds where they are in memory, seconds for
// tens of thousands of tensors on a disk, where loading will want the same pages.
//
// It misses a change that keeps a file's size and time of modification and all sampled bytes: one
// made on purpose, or by a failing disk. It differs between copies of a folder whose times differ,
// which costs a cache and no more. kNotFound / kIo with the path and the reason.
inline constexpr size_t kIdentitySample = 64;
Result<std::string> weights_identity(const Checkpoint& checkpoint);

}  // namespace minim
