// The JSON header of a safetensors file: {"name": {"dtype", "shape", "data_offsets"}, ...}.
//
// Read as a stream of events rather than as a document: a document model would keep only one of two
// equal keys, and two tensors of one name are exactly what must be noticed. After reading, the
// entries must tile the data area: no overlap, no hole, nothing behind the last one, as the format
// demands. A file that breaks this was cut, padded or forged, and reading on would give numbers
// that nobody wrote.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json_fields.h"
#include "model/checkpoint.h"

namespace minim {
namespace {

struct DtypeInfo {
  std::string_view name;
  Dtype dtype;
  size_t bytes;
};
constexpr DtypeInfo kDtypes[] = {
    {"BOOL", Dtype::kBool, 1},      {"U8", Dtype::kU8, 1},          {"I8", Dtype::kI8, 1},
    {"F8_E4M3", Dtype::kF8E4m3, 1}, {"F8_E5M2", Dtype::kF8E5m2, 1}, {"F8_E8M0", Dtype::kF8E8m0, 1},
    {"U16", Dtype::kU16, 2},        {"I16", Dtype::kI16, 2},        {"F16", Dtype::kF16, 2},
    {"BF16", Dtype::kBf16, 2},      {"U32", Dtype::kU32, 4},        {"I32", Dtype::kI32, 4},
    {"F32", Dtype::kF32, 4},        {"U64", Dtype::kU64, 8},        {"I64", Dtype::kI64, 8},
    {"F64", Dtype::kF64, 8},
};

// Receives nlohmann's parse events. Every handler returns false to stop; `error` says why.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<HeaderEntry> entries;
  std::string error;

  bool null() override { return scalar("null"); }
  bool boolean(bool) override { return scalar("a boolean"); }
  bool number_integer(number_integer_t) override { return scalar("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return scalar("a fraction or a number above 2^64");
  }
  bool binary(binary_t&) override { return scalar("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (list_ == List::kNone) return scalar("a number");
    if (list_ == List::kShape) {
      if (value > uint64_t{std::numeric_limits<int64_t>::max()})
        return bad("a dimension too large");
      entries.back().shape.push_back(static_cast<int64_t>(value));
    } else {
      if (n_offsets_ == 2) return bad("data_offsets of more than two numbers");
      (n_offsets_ == 0 ? entries.back().begin : entries.back().end) = value;
      ++n_offsets_;
    }
    return true;
  }

  bool string(string_t& value) override {
    if (ignored_depth_ > 0 || (depth_ == 2 && in_metadata_)) return true;
    if (depth_ != 2 || field_ != "dtype") return scalar("a string");
    if (has_dtype_) return bad("dtype twice");
    for (const DtypeInfo& info : kDtypes) {
      if (info.name != value) continue;
      entries.back().dtype = info.dtype;
      has_dtype_ = true;
      return true;
    }
    return bad(fmt::format("the unknown dtype {}", in_quotes(value)));
  }

  bool key(string_t& value) override {
    if (ignored_depth_ > 0) return true;
    if (depth_ == 2) {
      field_ = value;
      return true;
    }
    in_metadata_ = value == "__metadata__";
    if (!in_metadata_) entries.push_back({.name = value, .dtype = Dtype::kU8, .shape = {}});
    has_dtype_ = has_shape_ = false;
    n_offsets_ = 0;
    return true;
  }

  bool start_object(size_t) override {
    if (ignored_depth_ > 0 || depth_ == 2) return nested();
    if (list_ != List::kNone) return bad("an object inside a list");
    ++depth_;
    return true;
  }

  bool end_object() override {
    if (ignored_depth_ > 0) return leave_nested();
    if (depth_-- == 2 && !in_metadata_ && !(has_dtype_ && has_shape_ && n_offsets_ == 2)) {
      ++depth_;
      return bad("no complete set of dtype, shape and data_offsets");
    }
    return true;
  }

  bool start_array(size_t) override {
    if (ignored_depth_ > 0) return nested();
    if (depth_ == 2 && !in_metadata_ && list_ == List::kNone) {
      if (field_ == "shape" && !has_shape_) list_ = List::kShape;
      if (field_ == "data_offsets" && n_offsets_ == 0) list_ = List::kOffsets;
      if (list_ != List::kNone) return true;
      if (field_ != "shape" && field_ != "data_offsets" && field_ != "dtype") return nested();
    }
    return scalar("a list");
  }

  bool end_array() override {
    if (ignored_depth_ > 0) return leave_nested();
    has_shape_ = has_shape_ || list_ == List::kShape;
    list_ = List::kNone;
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& reason) override {
    error = fmt::format("header is not JSON at byte {}: {}", position, json_reason(reason));
    return false;
  }

 private:
  enum class List { kNone, kShape, kOffsets };

  bool bad(std::string_view what) {
    error = entries.empty() || in_metadata_
                ? fmt::format("header has {}", what)
                : fmt::format("tensor {} has {}", in_quotes(entries.back().name), what);
    return false;
  }
  // A value where only dtype, shape, data_offsets or something to be ignored may stand.
  bool scalar(std::string_view what) {
    if (ignored_depth_ > 0) return true;
    const bool known = field_ == "dtype" || field_ == "shape" || field_ == "data_offsets";
    if (depth_ == 2 && list_ == List::kNone && !in_metadata_ && !known) return true;
    if (depth_ < 2) return bad(fmt::format("{} where an object was wanted", what));
    return bad(fmt::format("{} in {}", what, in_metadata_ ? "__metadata__" : field_));
  }
  bool nested() {
    const bool known = field_ == "dtype" || field_ == "shape" || field_ == "data_offsets";
    if (ignored_depth_ == 0 && (in_metadata_ || known)) return bad("a container in " + field_);
    ++ignored_depth_;
    return true;
  }
  bool leave_nested() {
    --ignored_depth_;
    return true;
  }

  int depth_ = 0;          // 1: the header, 2: an entry
  int ignored_depth_ = 0;  // inside a field that the format may add later
  bool in_metadata_ = false, has_dtype_ = false, has_shape_ = false;
  int n_offsets_ = 0;
  List list_ = List::kNone;
  std::string field_;
};

// Bytes of a tensor, unless the product overflows.
std::optional<uint64_t> tensor_bytes(const HeaderEntry& entry) {
  uint64_t bytes = dtype_bytes(entry.dtype);
  bool zero = false;
  for (const int64_t dim : entry.shape) {
    if (dim == 0) {
      zero = true;
    } else if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes)) {
      return std::nullopt;
    }
  }
  return zero ? 0 : bytes;
}

std::optional<Error> check_entry(const HeaderEntry& entry, uint64_t data_bytes,
                                 std::string_view name) {
  const auto bad = [&](const std::string& text) {
    return Error{Code::kInvalid,
                 fmt::format("{}: tensor {} {}", name, in_quotes(entry.name), text)};
  };
  if (entry.begin > entry.end) {
    return bad(
        fmt::format("has data_offsets [{}, {}], wanted begin <= end", entry.begin, entry.end));
  }
  if (entry.end > data_bytes) {
    return bad(
        fmt::format("ends at byte {} of a data area of {} bytes (truncated file? download "
                    "it again)",
                    entry.end, data_bytes));
  }
  const std::optional<uint64_t> wanted = tensor_bytes(entry);
  if (!wanted)
    return bad(fmt::format("has shape {}, which overflows", shape_in_brackets(entry.shape)));
  if (entry.end - entry.begin != *wanted) {
    return bad(fmt::format("has {} bytes, wanted {} for {} {}", entry.end - entry.begin, *wanted,
                           dtype_name(entry.dtype), shape_in_brackets(entry.shape)));
  }
  return std::nullopt;
}

std::optional<Error> check_tiling(std::vector<HeaderEntry>& entries, uint64_t data_bytes,
                                  std::string_view name) {
  std::sort(entries.begin(), entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t end = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const HeaderEntry& entry = entries[i];
    if (entry.begin < end) {
      return Error{Code::kInvalid,
                   fmt::format("{}: tensors {} and {} overlap", name,
                               in_quotes(entries[i - 1].name), in_quotes(entry.name))};
    }
    if (entry.begin > end) {
      return Error{Code::kInvalid, fmt::format("{}: {} bytes before tensor {} belong to no tensor",
                                               name, entry.begin - end, in_quotes(entry.name))};
    }
    end = entry.end;
  }
  if (end != data_bytes) {
    return Error{Code::kInvalid,
                 fmt::format("{}: the last tensor ends at byte {} of a data area of "
                             "{} bytes",
                             name, end, data_bytes)};
  }
  return std::nullopt;
}

std::optional<Error> check_names(const std::vector<HeaderEntry>& entries, std::string_view name) {
  std::vector<std::string_view> names;
  for (const HeaderEntry& entry : entries) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return std::nullopt;
  return Error{Code::kInvalid, fmt::format("{}: tensor {} appears twice", name, in_quotes(*twice))};
}

}  // namespace

size_t dtype_bytes(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)].bytes; }
std::string_view dtype_name(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)].name; }

std::string shape_in_brackets(std::span<const int64_t> shape) {
  constexpr size_t kMostShown = 8;
  if (shape.size() <= kMostShown) return fmt::format("[{}]", fmt::join(shape, ", "));
  return fmt::format("[{}, ... {} dimensions]", fmt::join(shape.first(kMostShown), ", "),
                     shape.size());
}

Result<std::vector<HeaderEntry>> parse_safetensors_header(std::string_view json,
                                                          uint64_t data_bytes,
                                                          std::string_view name) {
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &reader)) {
    return Error{Code::kInvalid, fmt::format("{}: {}", name, reader.error)};
  }
  std::vector<HeaderEntry> entries = std::move(reader.entries);
  for (const HeaderEntry& entry : entries) {
    if (std::optional<Error> error = check_entry(entry, data_bytes, name)) return *error;
  }
  if (std::optional<Error> error = check_names(entries, name)) return *error;
  if (std::optional<Error> error = check_tiling(entries, data_bytes, name)) return *error;
  return entries;
}

}  // namespace minim
