// Single weights of a checkpoint: found under any of their names, checked, and their format told by
// what stands beside them.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "model/checkpoint.h"
#include "model/tensor_names.h"
#include "model/weight_plan.h"

namespace minim {

using Shape = std::vector<int64_t>;

inline Shape shape_of(size_t a) { return {static_cast<int64_t>(a)}; }
inline Shape shape_of(size_t a, size_t b) {
  return {static_cast<int64_t>(a), static_cast<int64_t>(b)};
}

// Rows [first, first + count) of a matrix.
PlannedMatrix slice_rows(const PlannedMatrix& whole, size_t first, size_t count);

// What is wrong goes into the report; what is then returned must not be used, but may be looked at.
class WeightFinder {
 public:
  explicit WeightFinder(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

 protected:
  static constexpr size_t kMaxProblems = 50;  // that are kept

  // ---- looking up: each marks what it finds as used
  const TensorView* take(const std::string& name);
  const std::string* first_with(const Paths& paths, const char* suffix) const;
  void missing(const std::string& name);
  void problem(std::string text);
  void check(const std::string& name, const TensorView& tensor, std::initializer_list<Dtype> dtypes,
             const Shape& shape);
  void check_alignment(const std::string& name, const TensorView& tensor);
  // One finite positive F32; reports and returns nothing otherwise.
  std::optional<double> scalar(const std::string& name);

  PlannedVector vector(const Paths& names, size_t n, bool optional = false);
  // A matrix [n_out, n_in] in whatever format it is stored.
  PlannedMatrix linear(const Paths& paths, size_t n_out, size_t n_in);
  PlannedMatrix plain(const std::string& name, size_t n_out, size_t n_in, bool or_f32 = false);

  const Checkpoint& checkpoint_;
  CheckpointReport report_;
  std::unordered_set<const TensorView*> used_;
  std::vector<std::string> missing_;
  size_t n_problems_ = 0;

 private:
  PlannedMatrix mxfp8(const std::string& path, size_t n_out, size_t n_in);
  PlannedMatrix nvfp4(const std::string& path, const std::string& values, size_t n_out,
                      size_t n_in);
  float outer_scale(const std::string& path);
  void ignored_companions(const std::string& path);
};

}  // namespace minim
