// Writes safetensors files and whole model folders, right or broken on purpose.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "model/checkpoint.h"

namespace minim::testing {

struct StoredTensor {
  Dtype dtype = Dtype::kU8;
  std::vector<int64_t> shape;
  std::string bytes;
};
using StoredTensors = std::map<std::string, StoredTensor>;

inline void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  CHECK(out.good(), "cannot write %s", path.c_str());
}

// Length, header text as it is, data.
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + data;
}

inline std::string safetensors_bytes(const StoredTensors& tensors) {
  std::string header = "{\"__metadata__\":{\"format\":\"pt\"}", data;
  for (const auto& [name, tensor] : tensors) {
    header += fmt::format(",\"{}\":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                          name, dtype_name(tensor.dtype), fmt::join(tensor.shape, ","), data.size(),
                          data.size() + tensor.bytes.size());
    data += tensor.bytes;
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  return safetensors_bytes(header, data);
}

// Every tensor of an opened checkpoint.
inline StoredTensors stored_tensors(const Checkpoint& checkpoint) {
  StoredTensors tensors;
  for (const std::string_view name : checkpoint.names()) {
    const TensorView& view = *checkpoint.find(name);
    tensors[std::string(name)] = {
        view.dtype, view.shape,
        std::string(reinterpret_cast<const char*>(view.data.data()), view.data.size())};
  }
  return tensors;
}

// A folder that is removed at the end of its life.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "minim-test-XXXXXX").string();
    CHECK(mkdtemp(name.data()) != nullptr, "no temporary folder");
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::string path() const { return path_.string(); }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace minim::testing
