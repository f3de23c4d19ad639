// The tokenizer's golden vectors, read as they are.
#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"

namespace minim {

inline std::string tokenizer_golden(const std::string& file) {
  return std::string(MINIM_TEST_DATA) + "/text/tokenizer/" + file;
}

// The objects of a JSON Lines file; `expected` guards against a cut-off file that would test
// nothing.
inline std::vector<Json> golden_vectors(const std::string& file, size_t expected) {
  std::vector<Json> vectors;
  const Result<std::string> text = read_file(tokenizer_golden(file));
  EXPECT_TRUE(text) << text.error().message;
  if (!text) return vectors;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    Result<Json> vector = parse_json(line, file);
    EXPECT_TRUE(vector) << vector.error().message;
    if (vector) vectors.push_back(*std::move(vector));
  }
  EXPECT_EQ(vectors.size(), expected) << file;
  return vectors;
}

inline Tokenizer golden_tokenizer(const std::string& file = "tokenizer.json") {
  Result<Tokenizer> tokenizer = Tokenizer::load(tokenizer_golden(file));
  if (!tokenizer) ADD_FAILURE() << tokenizer.error().message;
  return *std::move(tokenizer);
}

}  // namespace minim
