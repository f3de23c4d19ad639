// Memory for weights, caches and activations: aligned, zero when first touched, in large pages
// where the system has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"

namespace minim {

// One private mapping, released by the destructor. Movable; a moved-from buffer is empty.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // `bytes` zero bytes, aligned to 4 KiB; from 2 MiB on aligned to 2 MiB, with large pages advised.
  // Memory is committed page by page when first touched. 0 bytes give an empty buffer. kExhausted
  // when the system refuses.
  static Result<AlignedBuffer> make(size_t bytes);
  ~AlignedBuffer();
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;

  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

// Many pieces that live as long as the arena, cut from few large mappings (a mapping for each of
// the tens of thousands of matrices would waste half a large page each).
class Arena {
 public:
  // `bytes` zero bytes, aligned to 64, valid until the arena is destroyed. kExhausted as above.
  Result<uint8_t*> take(size_t bytes);

 private:
  static constexpr size_t kChunkBytes = size_t{256} << 20;
  std::vector<AlignedBuffer> chunks_;
  uint8_t* next_ = nullptr;
  size_t left_ = 0;
};

}  // namespace minim
