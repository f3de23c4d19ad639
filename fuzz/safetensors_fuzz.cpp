// Arbitrary text as a safetensors header, behind four bytes that say how long the data area is.
// What is accepted must tile that area exactly, with shapes that fit.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/result.h"
#include "model/checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint32_t data_bytes = 0;
  if (size < sizeof data_bytes) return 0;
  std::memcpy(&data_bytes, data, sizeof data_bytes);
  const std::string_view json(reinterpret_cast<const char*>(data) + sizeof data_bytes,
                              size - sizeof data_bytes);
  const minim::Result<std::vector<minim::HeaderEntry>> entries =
      minim::parse_safetensors_header(json, data_bytes, "fuzz");
  if (!entries) {
    if (entries.error().message.find('\n') != std::string::npos) std::abort();
    return 0;
  }
  uint64_t end = 0;
  for (const minim::HeaderEntry& entry : *entries) {
    if (entry.begin != end || entry.end < entry.begin) std::abort();
    end = entry.end;
    bool zero = false;
    unsigned __int128 bytes = minim::dtype_bytes(entry.dtype);
    for (const int64_t dim : entry.shape) {
      if (dim < 0) std::abort();
      zero = zero || dim == 0;
      if (dim > 0 && bytes < (static_cast<unsigned __int128>(1) << 64)) {
        bytes *= static_cast<unsigned __int128>(dim);
      }
    }
    if ((zero ? 0 : bytes) != entry.end - entry.begin) std::abort();
  }
  if (end != data_bytes) std::abort();
  return 0;
}
