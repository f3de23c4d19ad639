// Reads a whole .safetensors file of golden data: an 8-byte header length, a JSON header, the
// tensors' bytes.
//
// For tests only: golden files are our own, so anything wrong in one is a CHECK failure, not a
// Result. (The engine's own reader of checkpoints trusts nothing and is model/checkpoint.h; a test
// of that reader must not lean on it.)
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/formats.h"
#include "base/json.h"

namespace minim {

struct StFile {
  Json header;
  std::string bytes;  // behind the header

  static StFile open(const std::string& path) {
    Result<std::string> file = read_file(path);
    CHECK(static_cast<bool>(file), "%s", file.error().message.c_str());
    CHECK(file->size() >= 8, "%s is too short", path.c_str());
    uint64_t length = 0;
    std::memcpy(&length, file->data(), 8);
    CHECK(length <= file->size() - 8, "%s: header does not fit", path.c_str());
    Result<Json> header = parse_json(std::string_view(*file).substr(8, length), path);
    CHECK(static_cast<bool>(header), "%s", header.error().message.c_str());
    return StFile{*std::move(header), file->substr(8 + length)};
  }

  bool has(const std::string& name) const {
    return name != "__metadata__" && header.contains(name);
  }
  std::string dtype(const std::string& name) const {
    return entry(name)["dtype"].get<std::string>();
  }
  std::vector<size_t> shape(const std::string& name) const {
    return entry(name)["shape"].get<std::vector<size_t>>();
  }

  // The stored elements as they are; T has the element's size (F8_E4M3: uint8_t, BF16: uint16_t).
  template <typename T>
  std::vector<T> get(const std::string& name) const {
    const auto [begin, end] = range(name);
    size_t count = 1;
    for (const size_t extent : shape(name)) count *= extent;
    CHECK(count * sizeof(T) == end - begin, "%s: %zu elements in %zu bytes are not of %zu bytes",
          name.c_str(), count, end - begin, sizeof(T));
    std::vector<T> values(count);
    if (count != 0) std::memcpy(values.data(), bytes.data() + begin, end - begin);
    return values;
  }

  // The elements as numbers, whatever their type.
  std::vector<double> as_double(const std::string& name) const {
    const std::string type = dtype(name);
    if (type == "F64") return get<double>(name);
    if (type == "F32") return widened<float>(name, [](float v) { return v; });
    if (type == "BF16") return widened<uint16_t>(name, bf16_to_float);
    if (type == "F8_E4M3") return widened<uint8_t>(name, e4m3_to_float);
    if (type == "U8") return widened<uint8_t>(name, [](uint8_t v) { return v; });
    if (type == "U16") return widened<uint16_t>(name, [](uint16_t v) { return v; });
    if (type == "I32") return widened<int32_t>(name, [](int32_t v) { return v; });
    if (type == "I64") return widened<int64_t>(name, [](int64_t v) { return v; });
    CHECK(false, "%s has the unknown type %s", name.c_str(), type.c_str());
    return {};
  }

 private:
  const Json& entry(const std::string& name) const {
    CHECK(has(name), "no tensor %s", name.c_str());
    return header[name];
  }
  std::pair<size_t, size_t> range(const std::string& name) const {
    const auto offsets = entry(name)["data_offsets"].get<std::vector<size_t>>();
    CHECK(offsets.size() == 2 && offsets[0] <= offsets[1] && offsets[1] <= bytes.size(),
          "%s: bad offsets", name.c_str());
    return {offsets[0], offsets[1]};
  }
  template <typename T, typename Convert>
  std::vector<double> widened(const std::string& name, Convert convert) const {
    std::vector<double> values;
    for (const T v : get<T>(name)) values.push_back(static_cast<double>(convert(v)));
    return values;
  }
};

}  // namespace minim
