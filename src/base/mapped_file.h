// A whole file mapped read-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace minim {

class MappedFile {
 public:
  // kNotFound or kIo with the path and the system's reason; a directory or another thing that is
  // not a plain file is refused. An empty file has empty data.
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // Valid as long as this object. A file that another process cuts short afterwards raises SIGBUS
  // on access: whoever changes a model under a running program is outside what this guards against.
  std::span<const uint8_t> data() const { return {data_, size_}; }

 private:
  MappedFile(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

// Hints about a part of a mapping; they never change what is read and failures are ignored.
// Starts reading from disk in the background.
void advise_will_need(std::span<const uint8_t> part);
// Drops the pages that lie wholly inside: they leave the process's resident set, stay in the page
// cache and come back by a fault.
void advise_release(std::span<const uint8_t> part);
// Reads of a few bytes here and there will come: no more is read from disk than they touch. Until
// advise_in_order() says that this is over.
void advise_scattered(std::span<const uint8_t> part);
void advise_in_order(std::span<const uint8_t> part);

}  // namespace minim
