// Result<T>: a value, or the one-line reason why there is none.
//
// Three kinds of failure, three tools: Result for other people's mistakes (files, flags, requests),
// CHECK (check.h) for our own bugs, an exit code for "cannot start". Nothing of ours throws.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace minim {

enum class Code {
  kInvalid,      // malformed input: JSON, header, token list
  kNotFound,     // a file or tensor that should exist does not
  kUnsupported,  // well-formed, but nothing here can do it
  kExhausted,    // no memory, no cache blocks, context too small
  kIo,           // the operating system said no
  kCancelled,    // the caller asked to stop
  kBusy,         // not now; later it may work
};

// The message is one line: what was found, what was wanted and, where there is a usual cause, a
// hint.
struct Error {
  Code code = Code::kInvalid;
  std::string message;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

// Success without a value: Result<Ok>.
struct Ok {};

}  // namespace minim
