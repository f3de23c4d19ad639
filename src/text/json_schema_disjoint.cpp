// Proofs that no value satisfies two nodes, for "oneOf", which a grammar can only express as "any
// of". What is proved: different types, different values, ranges that do not meet, and for objects
// a property that both require with disjoint values, or that one requires and the other forbids.
#include <fmt/format.h>

#include <algorithm>

#include "text/json_schema_nodes.h"

namespace minim {
namespace {

constexpr int kMaxProofDepth = 8;
constexpr size_t kMaxSteps = 100'000;

class Prover {
 public:
  explicit Prover(const SchemaNodes& schema) : nodes_(schema.nodes) {}

  bool disjoint(size_t a, size_t b, int depth) {
    if (depth > kMaxProofDepth || ++steps_ > kMaxSteps) return false;
    const SchemaNode& left = nodes_[a];
    const SchemaNode& right = nodes_[b];
    if (left.choice) {
      return std::all_of(left.alternatives.begin(), left.alternatives.end(),
                         [&](size_t one) { return disjoint(one, b, depth + 1); });
    }
    if (right.choice) return disjoint(b, a, depth + 1);
    if (left.values || right.values) return values_disjoint(left, right);
    const unsigned common = left.types & right.types;
    if ((common & (kNullType | kBooleanType)) != 0) return false;
    if ((common & kNumberTypes) != 0 && !ranges_disjoint(left.range, right.range)) return false;
    if ((common & kStringType) != 0 &&
        !counts_disjoint(left.min_length, left.max_length, right.min_length, right.max_length)) {
      return false;
    }
    if ((common & kArrayType) != 0 &&
        !counts_disjoint(left.min_items, left.max_items, right.min_items, right.max_items)) {
      return false;
    }
    return (common & kObjectType) == 0 || objects_disjoint(left, right, depth) ||
           objects_disjoint(right, left, depth);
  }

 private:
  static unsigned type_of(const Json& value) {
    if (value.is_null()) return kNullType;
    if (value.is_boolean()) return kBooleanType;
    if (value.is_string()) return kStringType;
    if (value.is_array()) return kArrayType;
    return value.is_object() ? kObjectType : kNumberTypes;
  }

  static bool values_disjoint(const SchemaNode& left, const SchemaNode& right) {
    if (!left.values) return values_disjoint(right, left);
    return std::all_of(left.values->begin(), left.values->end(), [&](const Json* value) {
      if (!right.values) return (type_of(*value) & right.types) == 0;
      return std::none_of(right.values->begin(), right.values->end(),
                          [&](const Json* other) { return *other == *value; });
    });
  }

  static bool ranges_disjoint(const DecimalRange& a, const DecimalRange& b) {
    const auto below = [](const DecimalRange& low, const DecimalRange& high) {
      if (!low.high || !high.low) return false;
      const int order = compare(low.high->value, high.low->value);
      return order < 0 || (order == 0 && (low.high->exclusive || high.low->exclusive));
    };
    return below(a, b) || below(b, a);
  }

  static bool counts_disjoint(int64_t min_a, int64_t max_a, int64_t min_b, int64_t max_b) {
    return (max_a >= 0 && max_a < min_b) || (max_b >= 0 && max_b < min_a);
  }

  bool objects_disjoint(const SchemaNode& left, const SchemaNode& right, int depth) {
    return std::any_of(
        left.properties.begin(), left.properties.end(), [&](const SchemaProperty& property) {
          if (!property.required) return false;
          const auto other =
              std::find_if(right.properties.begin(), right.properties.end(),
                           [&](const SchemaProperty& one) { return one.name == property.name; });
          if (other == right.properties.end()) return right.declared_closed;
          return other->required && disjoint(property.node, other->node, depth + 1);
        });
  }

  const std::vector<SchemaNode>& nodes_;
  size_t steps_ = 0;
};

}  // namespace

Result<Ok> check_disjoint(const SchemaNodes& schema) {
  Prover prover(schema);
  for (const DisjointWish& wish : schema.wishes) {
    for (size_t i = 0; i < wish.nodes.size(); ++i) {
      for (size_t j = i + 1; j < wish.nodes.size(); ++j) {
        if (prover.disjoint(wish.nodes[i], wish.nodes[j], 0)) continue;
        return schema_error(Code::kUnsupported, "oneOf", wish.place,
                            fmt::format("members {} and {} may both hold; \"anyOf\", or a property "
                                        "with different \"const\" values that both require, is "
                                        "supported",
                                        i, j));
      }
    }
  }
  return Ok{};
}

}  // namespace minim
