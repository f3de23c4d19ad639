// Owns the way from nlohmann's events to a document. Finished values wait on one stack until the
// array or object around them ends; then they are moved into it at once, and the object's keys are
// sorted to find one that comes twice. So n keys cost n log n comparisons, whatever they are, and
// no value is copied. nlohmann's own builder lost: ordered_json compares each new key with all
// before it and copies the values whenever an object grows; a hash set of keys lost because keys
// can be chosen to collide.
//
// A key that comes twice is an error although nlohmann takes it: a document keeps one of the two,
// and which one differs between readers, so whoever wrote it may have meant the other.
#include "base/json_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/json_fields.h"

namespace minim {
namespace {

// Behind all members so far; the caller knows that the key is new, and the last by order where keys
// are sorted.
void append(Json::object_t& object, std::string&& key, Json&& value) {
  object.emplace_back(std::move(key), std::move(value));  // the vector's: it does not search
}
void append(SortedJson::object_t& object, std::string&& key, SortedJson&& value) {
  object.emplace_hint(object.end(), std::move(key), std::move(value));  // nor does this
}
void make_room(Json::object_t& object, size_t n) { object.reserve(n); }
void make_room(SortedJson::object_t&, size_t) {}

template <typename AnyJson>
class Builder final : public nlohmann::json_sax<AnyJson> {
 public:
  explicit Builder(std::string_view what) : what_(what) {}

  Result<AnyJson> take() {
    if (error_) return *std::move(error_);
    if (repeated_) {
      return Error{Code::kInvalid, fmt::format("{}: the key {} comes twice in one object", what_,
                                               in_quotes(*repeated_))};
    }
    return std::move(values_.back());
  }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(int64_t value) override { return add(value); }
  bool number_unsigned(uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string& /*as_written*/) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(typename AnyJson::binary_t& value) override { return add(std::move(value)); }
  bool start_object(size_t /*unknown*/) override { return open(); }
  bool start_array(size_t /*unknown*/) override { return open(); }

  bool key(std::string& key) override {
    keys_.push_back({std::move(key), n_keys_++});
    return true;
  }

  bool end_array() override {
    AnyJson whole = AnyJson::array();
    auto& array = whole.template get_ref<typename AnyJson::array_t&>();
    array.reserve(values_.size() - open_.back().values);
    for (size_t i = open_.back().values; i < values_.size(); ++i) {
      array.push_back(std::move(values_[i]));
    }
    return close(std::move(whole));
  }

  bool end_object() override {
    const Open from = open_.back();
    find_repeated(from.keys);
    AnyJson whole = AnyJson::object();
    auto& object = whole.template get_ref<typename AnyJson::object_t&>();
    make_room(object, keys_.size() - from.keys);
    for (size_t i = from.keys; i < keys_.size(); ++i) {
      const auto of_keys = static_cast<size_t>(sorted_[i - from.keys] - keys_.data());
      const size_t at = std::is_same_v<AnyJson, SortedJson> ? of_keys : i;
      append(object, std::move(keys_[at].text), std::move(values_[from.values + at - from.keys]));
    }
    return close(std::move(whole));
  }

  bool parse_error(size_t /*position*/, const std::string& /*last_read*/,
                   const nlohmann::detail::exception& reason) override {
    const auto* syntax = dynamic_cast<const typename AnyJson::parse_error*>(&reason);
    const std::string place = syntax == nullptr ? "" : fmt::format(" at byte {}", syntax->byte);
    error_ =
        Error{Code::kInvalid, fmt::format("{}: not JSON{}: {}", what_, place, json_reason(reason))};
    return false;
  }

 private:
  struct Key {
    std::string text;
    size_t number;  // among all keys of the document
  };
  struct Open {  // sizes of the stacks where an array or object began
    size_t values, keys;
  };

  template <typename Value>
  bool add(Value&& value) {
    values_.emplace_back(std::forward<Value>(value));
    return true;
  }
  bool open() {
    open_.push_back({values_.size(), keys_.size()});
    return true;
  }
  bool close(AnyJson whole) {
    values_.erase(values_.begin() + static_cast<ptrdiff_t>(open_.back().values), values_.end());
    keys_.erase(keys_.begin() + static_cast<ptrdiff_t>(open_.back().keys), keys_.end());
    open_.pop_back();
    return add(std::move(whole));
  }

  // Looks through the keys from `first` on; of all repetitions the first in the text is kept.
  void find_repeated(size_t first) {
    sorted_.clear();
    for (size_t i = first; i < keys_.size(); ++i) sorted_.push_back(&keys_[i]);
    std::sort(sorted_.begin(), sorted_.end(), [](const Key* a, const Key* b) {
      const int order = a->text.compare(b->text);
      return order != 0 ? order < 0 : a->number < b->number;
    });
    for (size_t i = 1; i < sorted_.size(); ++i) {
      const Key& key = *sorted_[i];
      if (key.text != sorted_[i - 1]->text || key.number >= repeated_number_) continue;
      repeated_number_ = key.number;
      repeated_ = key.text;
    }
  }

  std::string_view what_;
  std::vector<AnyJson> values_;
  std::vector<Key> keys_;  // of the objects that are open
  std::vector<Open> open_;
  std::vector<const Key*> sorted_;
  size_t n_keys_ = 0, repeated_number_ = SIZE_MAX;
  std::optional<std::string> repeated_;
  std::optional<Error> error_;
};

template <typename AnyJson>
Result<AnyJson> build(std::string_view text, std::string_view what) {
  Builder<AnyJson> builder(what);
  AnyJson::sax_parse(text, &builder);  // what it answers is whether there was an error
  return builder.take();
}

}  // namespace

Result<Json> build_json(std::string_view text, std::string_view what) {
  return build<Json>(text, what);
}

Result<SortedJson> build_sorted_json(std::string_view text, std::string_view what) {
  return build<SortedJson>(text, what);
}

}  // namespace minim
