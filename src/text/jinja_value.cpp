// Owns the representation of template values. A string is one byte array plus a run list; nearly
// all strings have one run, so marking costs a vector of one element. (Ropes would save copies when
// messages pass through macros, but every string method would have to walk them.) Containers never
// change once they are inside a Value and know how deep they nest: the runtime refuses to build
// deeper ones, so recursion over values, destruction included, is bounded.
#include "text/jinja_value.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "text/python_repr.h"

namespace minim::jinja {

Text::Text(std::string bytes, bool from_template) : bytes_(std::move(bytes)) {
  if (!bytes_.empty()) runs_.push_back({bytes_.size(), from_template});
}

bool Text::from_template_at(size_t byte) const {
  const auto run = std::upper_bound(runs_.begin(), runs_.end(), byte,
                                    [](size_t at, const Run& r) { return at < r.end; });
  return run != runs_.end() && run->from_template;
}

void Text::append(std::string_view bytes, bool from_template) {
  if (bytes.empty()) return;
  bytes_.append(bytes);
  if (!runs_.empty() && runs_.back().from_template == from_template) {
    runs_.back().end = bytes_.size();
  } else {
    runs_.push_back({bytes_.size(), from_template});
  }
}

void Text::append(const Text& other, size_t begin, size_t end) {
  auto run = std::upper_bound(other.runs_.begin(), other.runs_.end(), begin,
                              [](size_t at, const Run& r) { return at < r.end; });
  while (begin < end) {
    DCHECK(run != other.runs_.end());
    const size_t stop = std::min(end, run->end);
    append(other.view().substr(begin, stop - begin), run->from_template);
    begin = stop;
    ++run;
  }
}

Text Text::slice(size_t begin, size_t end) const {
  Text out;
  if (begin < end) out.append(*this, begin, end);
  return out;
}

Value Object::call(Runtime&, const Args&) { return Value(); }
bool Object::attribute(Runtime&, std::string_view, Value*) { return false; }
bool Object::assign(Runtime&, std::string_view, Value) { return false; }

Value Value::string(Text text) {
  return Value(Data(std::in_place_index<5>, std::make_shared<const Text>(std::move(text))));
}

Value Value::undefined(std::string why) {
  return Value(Data(std::in_place_index<0>, std::make_shared<const std::string>(std::move(why))));
}

double Value::as_real() const {
  return is(Kind::kFloat) ? std::get<4>(data_) : static_cast<double>(as_int());
}

const std::string& Value::why_undefined() const {
  static const std::string kNoName = "a value is undefined";
  const auto& why = std::get<0>(data_);
  return why ? *why : kNoName;
}

bool Value::same(const Value& other) const {
  if (kind() != other.kind()) return false;
  switch (kind()) {
    case Kind::kUndefined:
      return &why_undefined() == &other.why_undefined();
    case Kind::kNone:
      return true;
    case Kind::kBool:
      return as_bool() == other.as_bool();
    case Kind::kInt:
      return as_int() == other.as_int();
    case Kind::kFloat:
      return as_real() == other.as_real();
    case Kind::kString:
      return text().view() == other.text().view();
    case Kind::kList:
      return &list() == &other.list();
    case Kind::kDict:
      return &dict() == &other.dict();
    case Kind::kObject:
      return object() == other.object();
  }
  return false;
}

// A tuple that holds another twice, which holds another twice, ... has a key of exponential size.
constexpr size_t kLongestTuplePart = 4096;

bool dict_key(const Value& key, std::string* out) {
  switch (key.kind()) {
    case Kind::kString:
      *out += 's';
      *out += key.text().bytes();
      return true;
    case Kind::kBool:
    case Kind::kInt:
      out->append("n").append(int_to_string(key.as_int()));
      return true;
    case Kind::kFloat: {
      const double d = key.as_real();
      const bool whole = std::isfinite(d) && d == std::trunc(d) && std::fabs(d) < 1e37;
      out->append("n").append(whole ? int_to_string(static_cast<Int>(d)) : python_float_repr(d));
      return true;
    }
    case Kind::kNone:
      *out += '0';
      return true;
    case Kind::kUndefined:
      *out += 'u';
      return true;
    case Kind::kObject:
      out->append("o").append(std::to_string(reinterpret_cast<uintptr_t>(key.object().get())));
      return true;
    case Kind::kList: {
      const List& list = key.list();
      if (list.kind != ListKind::kTuple && list.kind != ListKind::kGroup) return false;
      out->append("t").append(std::to_string(list.items.size()));
      for (const Value& item : list.items) {
        std::string part;
        if (!dict_key(item, &part) || part.size() > kLongestTuplePart) return false;
        out->append(",").append(std::to_string(part.size())).append(":").append(part);
      }
      return true;
    }
    case Kind::kDict:
      return false;
  }
  return false;
}

// Below this many entries a scan beats hashing.
constexpr size_t kScanLimit = 8;

size_t Dict::find(std::string_view key) const {
  if (items.size() <= kScanLimit) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i].first.is_string() && items[i].first.text().view() == key) return i;
    }
    return npos;
  }
  std::string name = "s";
  name += key;
  const auto at = index_.find(name);
  return at == index_.end() ? npos : at->second;
}

size_t Dict::find(const Value& key) const {
  if (key.is_string()) return find(key.text().view());
  std::string name;
  if (!dict_key(key, &name)) return npos;
  const auto at = index_.find(name);
  return at == index_.end() ? npos : at->second;
}

void Dict::set(Value key, Value value) {
  std::string name;
  const bool hashable = dict_key(key, &name);
  CHECK(hashable);
  depth = std::max({depth, depth_of(value) + 1, depth_of(key) + 1});
  const auto [at, added] = index_.emplace(std::move(name), items.size());
  if (added) {
    items.emplace_back(std::move(key), std::move(value));
  } else {
    items[at->second].second = std::move(value);
  }
}

const Value* Args::find(std::string_view name) const {
  for (const auto& [key, value] : named) {
    if (key == name) return &value;
  }
  return nullptr;
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kDict:
      return "dict";
    case Kind::kObject:
      return value.object()->type_name();
    case Kind::kList:
      return type_name(value.list().kind);
  }
  return "object";
}

std::string_view type_name(ListKind kind) {
  switch (kind) {
    case ListKind::kList:
      return "list";
    case ListKind::kTuple:
      return "tuple";
    case ListKind::kGroup:
      return "_GroupTuple";
    case ListKind::kGenerator:
      return "generator";
    case ListKind::kRange:
      return "range";
    case ListKind::kDictKeys:
      return "dict_keys";
    case ListKind::kDictValues:
      return "dict_values";
    case ListKind::kDictItems:
      return "dict_items";
  }
  return "list";
}

int depth_of(const Value& value) {
  return value.is(Kind::kList)   ? value.list().depth
         : value.is(Kind::kDict) ? value.dict().depth
                                 : 0;
}

std::string int_to_string(Int value) {
  std::string out = value < 0 ? "-" : "";
  out += digits_in_base(value, 10, false);
  return out;
}

std::string digits_in_base(Int value, int base, bool upper) {
  std::string out;
  do {
    const int digit = std::abs(static_cast<int>(value % base));
    out += static_cast<char>(digit < 10 ? '0' + digit : (upper ? 'A' : 'a') + digit - 10);
    value /= base;
  } while (value != 0);
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace minim::jinja
