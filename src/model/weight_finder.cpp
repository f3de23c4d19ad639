// Finds a weight and decides how it is stored.
//
// The format of a matrix follows from the tensors that stand beside each other and their dtypes,
// never from a quant_method: four conventions are in use and one word ("mxfp8") stands for two of
// them.
//
//   X.weight BF16                                          plain
//   X.weight F8_E4M3 + X.weight_scale_inv | weight_scale   MXFP8 (E8M0 bytes, a multiplier in spite
//                                                          of the name)
//   X.weight_packed | X.weight U8 + X.weight_scale F8_E4M3 NVFP4, with one of
//     X.weight_scale_2                                       a multiplier (ModelOpt)
//     X.weight_global_scale                                  a divisor (compressed-tensors, M3.1)
//
// Every matrix keeps its own outer scale, so w1 and w3 of one expert may differ.
#include "model/weight_finder.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "base/formats.h"
#include "base/json_fields.h"

namespace minim {
namespace {

size_t columns_in_bytes(WeightFormat format, size_t n) {
  switch (format) {
    case WeightFormat::kBf16:
      return 2 * n;
    case WeightFormat::kF32:
      return 4 * n;
    case WeightFormat::kMxfp8:
      return n;
    case WeightFormat::kNvfp4:
      return n / 2;
  }
  return 0;
}

size_t scales_in_row(WeightFormat format, size_t n) {
  return format == WeightFormat::kMxfp8   ? n / kMxfp8Group
         : format == WeightFormat::kNvfp4 ? n / kNvfp4Group
                                          : 0;
}

}  // namespace

PlannedMatrix slice_rows(const PlannedMatrix& whole, size_t first, size_t count) {
  PlannedMatrix part = whole;
  const MatrixView& view = whole.view;
  part.view.n_out = count;
  part.first_row = whole.first_row + first;
  if (view.values != nullptr) {
    part.view.values = view.values + first * columns_in_bytes(view.format, view.n_in);
  }
  if (view.scales != nullptr) {
    part.view.scales = view.scales + first * scales_in_row(view.format, view.n_in);
  }
  return part;
}

size_t PlannedMatrix::value_bytes() const {
  return view.n_out * columns_in_bytes(view.format, view.n_in);
}

size_t PlannedMatrix::scale_bytes() const {
  return view.n_out * scales_in_row(view.format, view.n_in);
}

void WeightFinder::problem(std::string text) {
  if (++n_problems_ <= kMaxProblems) report_.problems.push_back(std::move(text));
}

void WeightFinder::missing(const std::string& name) { missing_.push_back(name); }

const TensorView* WeightFinder::take(const std::string& name) {
  const TensorView* tensor = checkpoint_.find(name);
  if (tensor != nullptr && used_.insert(tensor).second) {
    report_.text_bytes += tensor->data.size();
  }
  return tensor;
}

const std::string* WeightFinder::first_with(const Paths& paths, const char* suffix) const {
  for (const std::string& path : paths) {
    if (checkpoint_.find(path + suffix) != nullptr) return &path;
  }
  return nullptr;
}

void WeightFinder::check(const std::string& name, const TensorView& tensor,
                         std::initializer_list<Dtype> dtypes, const Shape& shape) {
  std::string wanted;
  bool known = false;
  for (const Dtype dtype : dtypes) {
    known = known || dtype == tensor.dtype;
    wanted += fmt::format("{}{}", wanted.empty() ? "" : " or ", dtype_name(dtype));
  }
  if (!known || tensor.shape != shape) {
    problem(fmt::format("tensor {} is {} {}, wanted {} {}", in_quotes(name),
                        dtype_name(tensor.dtype), shape_in_brackets(tensor.shape), wanted,
                        shape_in_brackets(shape)));
  }
}

// Devices read bf16 and fp32 elements of matrices in place. Exporters sort tensors by element size,
// so this fails for hand-made files only.
void WeightFinder::check_alignment(const std::string& name, const TensorView& tensor) {
  const size_t bytes = dtype_bytes(tensor.dtype);
  if (reinterpret_cast<uintptr_t>(tensor.data.data()) % bytes == 0) return;
  problem(fmt::format("tensor {} does not start at a multiple of {} bytes in its file",
                      in_quotes(name), bytes));
}

// One finite positive F32; reports and returns nothing otherwise.
std::optional<double> WeightFinder::scalar(const std::string& name) {
  const TensorView* tensor = take(name);
  if (tensor == nullptr) return std::nullopt;
  if (tensor->dtype != Dtype::kF32 || tensor->data.size() != sizeof(float)) {
    problem(fmt::format("tensor {} is {} {}, wanted one F32", in_quotes(name),
                        dtype_name(tensor->dtype), shape_in_brackets(tensor->shape)));
    return std::nullopt;
  }
  float value = 0;
  std::memcpy(&value, tensor->data.data(), sizeof value);
  if (!(value > 0) || !std::isfinite(value)) {
    problem(
        fmt::format("tensor {} is {}, wanted a positive finite number", in_quotes(name), value));
    return std::nullopt;
  }
  return value;
}

PlannedVector WeightFinder::vector(const Paths& names, size_t n, bool optional) {
  const std::string* name = first_with(names, "");
  if (name == nullptr) {
    if (!optional) missing(names[0]);
    return {};
  }
  const TensorView* tensor = take(*name);
  check(*name, *tensor, {Dtype::kBf16, Dtype::kF32}, shape_of(n));
  return {tensor, *name};
}

PlannedMatrix WeightFinder::plain(const std::string& name, size_t n_out, size_t n_in, bool or_f32) {
  const TensorView* tensor = take(name);
  const bool is_f32 = or_f32 && tensor->dtype == Dtype::kF32;
  if (or_f32) {
    check(name, *tensor, {Dtype::kBf16, Dtype::kF32}, shape_of(n_out, n_in));
  } else {
    check(name, *tensor, {Dtype::kBf16}, shape_of(n_out, n_in));
  }
  check_alignment(name, *tensor);
  return {.view = {.format = is_f32 ? WeightFormat::kF32 : WeightFormat::kBf16,
                   .n_out = n_out,
                   .n_in = n_in,
                   .values = tensor->data.data()},
          .name = name};
}

PlannedMatrix WeightFinder::mxfp8(const std::string& path, size_t n_out, size_t n_in) {
  const std::string name = path + ".weight";
  const TensorView* values = take(name);
  if (n_in % kMxfp8Group != 0) {
    problem(fmt::format("tensor {} has {} input channels, wanted a multiple of {} for MXFP8",
                        in_quotes(name), n_in, kMxfp8Group));
    return {};
  }
  check(name, *values, {Dtype::kF8E4m3}, shape_of(n_out, n_in));
  const bool vendor = checkpoint_.find(path + ".weight_scale_inv") != nullptr;
  const std::string scale_name = path + (vendor ? ".weight_scale_inv" : ".weight_scale");
  const TensorView* scales = take(scale_name);
  if (scales == nullptr) {
    missing(scale_name);
    return {};
  }
  check(scale_name, *scales, {Dtype::kU8, Dtype::kF8E8m0}, shape_of(n_out, n_in / kMxfp8Group));
  return {.view = {.format = WeightFormat::kMxfp8,
                   .n_out = n_out,
                   .n_in = n_in,
                   .values = values->data.data(),
                   .scales = scales->data.data()},
          .name = scale_name};
}

// The suffix says whether an outer scale multiplies or divides.
float WeightFinder::outer_scale(const std::string& path) {
  const std::string multiplier = path + ".weight_scale_2", divisor = path + ".weight_global_scale";
  const bool multiplies = checkpoint_.find(multiplier) != nullptr;
  const bool divides = checkpoint_.find(divisor) != nullptr;
  if (multiplies && divides) {
    problem(fmt::format("tensors {} and {} are both there, wanted one of them",
                        in_quotes(multiplier), in_quotes(divisor)));
  }
  if (!multiplies && !divides) missing(divisor + " (or weight_scale_2)");
  const std::optional<double> value = scalar(multiplies ? multiplier : divisor);
  const float scale =
      static_cast<float>(multiplies ? value.value_or(1.0) : 1.0 / value.value_or(1.0));
  if (!(scale > 0) || !std::isfinite(scale)) {
    problem(fmt::format("tensor {} is {}, which leaves no usable outer scale", in_quotes(divisor),
                        *value));
  }
  return scale;
}

PlannedMatrix WeightFinder::nvfp4(const std::string& path, const std::string& name, size_t n_out,
                                  size_t n_in) {
  const TensorView* values = take(name);
  if (n_in % kNvfp4Group != 0) {
    problem(fmt::format("tensor {} has {} input channels, wanted a multiple of {} for NVFP4",
                        in_quotes(name), n_in, kNvfp4Group));
    return {};
  }
  check(name, *values, {Dtype::kU8}, shape_of(n_out, n_in / 2));
  const std::string scale_name = path + ".weight_scale";
  const TensorView* scales = take(scale_name);
  if (scales == nullptr) {
    missing(scale_name);
    return {};
  }
  check(scale_name, *scales, {Dtype::kF8E4m3}, shape_of(n_out, n_in / kNvfp4Group));
  return {.view = {.format = WeightFormat::kNvfp4,
                   .n_out = n_out,
                   .n_in = n_in,
                   .values = values->data.data(),
                   .scales = scales->data.data(),
                   .global = outer_scale(path)},
          .name = scale_name};
}

// Scales of activations are checked and left: linears take their input unquantised. A bias is not:
// the family has none, and leaving one out would change the result.
void WeightFinder::ignored_companions(const std::string& path) {
  scalar(path + ".input_scale");
  scalar(path + ".input_global_scale");
  if (take(path + ".bias") != nullptr) {
    problem(fmt::format("tensor {} is a bias, wanted none: linears of this family have no bias",
                        in_quotes(path + ".bias")));
  }
}

PlannedMatrix WeightFinder::linear(const Paths& paths, size_t n_out, size_t n_in) {
  const std::string* path = first_with(paths, ".weight");
  const std::string* packed = first_with(paths, ".weight_packed");
  if (path == nullptr && packed == nullptr) {
    missing(paths[0] + ".weight");
    return {};
  }
  if (path != nullptr && packed != nullptr) {
    problem(fmt::format("tensors {} and {} are both there, wanted one of them",
                        in_quotes(*path + ".weight"), in_quotes(*packed + ".weight_packed")));
    return {};
  }
  if (packed != nullptr) {
    ignored_companions(*packed);
    return nvfp4(*packed, *packed + ".weight_packed", n_out, n_in);
  }
  ignored_companions(*path);
  const std::string name = *path + ".weight";
  const Dtype dtype = checkpoint_.find(name)->dtype;
  if (dtype == Dtype::kF8E4m3) return mxfp8(*path, n_out, n_in);
  if (dtype == Dtype::kU8) return nvfp4(*path, name, n_out, n_in);
  if (dtype == Dtype::kBf16) return plain(name, n_out, n_in);
  take(name);
  problem(
      fmt::format("tensor {} is {}, wanted BF16, F8_E4M3 with E8M0 scales (MXFP8) or U8 with "
                  "E4M3 scales (NVFP4)",
                  in_quotes(name), dtype_name(dtype)));
  return {};
}

}  // namespace minim
