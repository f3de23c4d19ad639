#include "base/sha256.h"

#include <gtest/gtest.h>

namespace minim {
namespace {

TEST(Sha256, ExamplesOfTheStandardGiveTheirDigests) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesGiveTheDigestOfTheWhole) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>('a' + i % 23);
  for (size_t size = 0; size <= text.size(); size += 7) {
    for (const size_t piece : {1, 3, 55, 56, 63, 64, 65, 128}) {
      Sha256 hash;
      for (size_t at = 0; at < size; at += piece)
        hash.update(std::string_view(text).substr(at, std::min(piece, size - at)));
      EXPECT_EQ(hash.finish(), Sha256::of(std::string_view(text).substr(0, size))) << size;
    }
  }
}

TEST(Sha256, FieldsAreLengthAndBytes) {
  Sha256 hash;
  hash.update_number(0x0102030405060708);
  hash.update_field("abc");
  EXPECT_EQ(hash.finish(), Sha256::of(std::string_view("\x08\x07\x06\x05\x04\x03\x02\x01"
                                                       "\x03\0\0\0\0\0\0\0abc",
                                                       19)));
}

}  // namespace
}  // namespace minim
