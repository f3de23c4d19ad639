#include "base/aligned_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace minim {
namespace {

bool all_zero(const uint8_t* data, size_t n) {
  return std::all_of(data, data + n, [](uint8_t byte) { return byte == 0; });
}

TEST(AlignedBuffer, IsZeroWritableAndAligned) {
  for (size_t bytes :
       {size_t{1}, size_t{4096}, size_t{100000}, size_t{2} << 20, (size_t{5} << 20) + 12345}) {
    Result<AlignedBuffer> buffer = AlignedBuffer::make(bytes);
    ASSERT_TRUE(buffer);
    EXPECT_EQ(buffer->size(), bytes);
    const size_t alignment = bytes >= (size_t{2} << 20) ? size_t{2} << 20 : 4096;
    EXPECT_EQ(reinterpret_cast<size_t>(buffer->data()) % alignment, 0u);
    EXPECT_TRUE(all_zero(buffer->data(), bytes));
    std::fill_n(buffer->data(), bytes, uint8_t{0xa5});
    EXPECT_EQ(buffer->data()[bytes - 1], 0xa5);
  }
}

TEST(AlignedBuffer, NothingIsAnEmptyBuffer) {
  Result<AlignedBuffer> buffer = AlignedBuffer::make(0);
  ASSERT_TRUE(buffer);
  EXPECT_EQ(buffer->data(), nullptr);
}

TEST(AlignedBuffer, MovingHandsTheMemoryOver) {
  AlignedBuffer a = std::move(*AlignedBuffer::make(8192));
  a.data()[5] = 7;
  AlignedBuffer b = std::move(a);
  EXPECT_EQ(b.data()[5], 7);
  AlignedBuffer c;
  c = std::move(b);
  EXPECT_EQ(c.data()[5], 7);
  EXPECT_EQ(c.size(), 8192u);
}

TEST(AlignedBuffer, MoreThanTheAddressSpaceIsRefusedInOneLine) {
  for (size_t bytes : {size_t{1} << 60, SIZE_MAX}) {
    Result<AlignedBuffer> buffer = AlignedBuffer::make(bytes);
    ASSERT_FALSE(buffer);
    EXPECT_EQ(buffer.error().code, Code::kExhausted);
    EXPECT_EQ(buffer.error().message.find('\n'), std::string::npos);
  }
}

TEST(Arena, PiecesAreZeroAlignedAndDisjoint) {
  Arena arena;
  uint8_t* last = nullptr;
  for (size_t bytes : {1, 64, 65, 4097}) {
    Result<uint8_t*> piece = arena.take(bytes);
    ASSERT_TRUE(piece);
    EXPECT_EQ(reinterpret_cast<size_t>(*piece) % 64, 0u);
    EXPECT_TRUE(all_zero(*piece, bytes));
    std::fill_n(*piece, bytes, uint8_t{0xff});
    EXPECT_NE(*piece, last);
    last = *piece;
  }
}

TEST(Arena, APieceLargerThanAChunkDoesNotSpoilTheChunk) {
  Arena arena;
  uint8_t* small = *arena.take(64);
  uint8_t* large = *arena.take(size_t{300} << 20);
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(*arena.take(64), small + 64);
}

}  // namespace
}  // namespace minim
