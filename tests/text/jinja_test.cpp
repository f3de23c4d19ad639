#include <gtest/gtest.h>

#include "text/jinja_lexer.h"
#include "text/jinja_value.h"
#include "text/python_chars.h"
#include "text/python_repr.h"

namespace minim::jinja {
namespace {

TEST(PythonRepr, FloatsPrintAsPythonPrintsThem) {
  EXPECT_EQ(python_float_repr(1e16), "1e+16");
  EXPECT_EQ(python_float_repr(1e15), "1000000000000000.0");
  EXPECT_EQ(python_float_repr(9999999999999998.0), "9999999999999998.0");
  EXPECT_EQ(python_float_repr(1e-7), "1e-07");
  EXPECT_EQ(python_float_repr(1e-4), "0.0001");
  EXPECT_EQ(python_float_repr(0.00001234), "1.234e-05");
  EXPECT_EQ(python_float_repr(-0.0), "-0.0");
  EXPECT_EQ(python_float_repr(0.1), "0.1");
  EXPECT_EQ(python_float_repr(1.5e300), "1.5e+300");
  EXPECT_EQ(python_float_repr(5e-324), "5e-324");
  EXPECT_EQ(json_float(-1.0 / 0.0), "-Infinity");
}

TEST(PythonChars, CaseMappingsAreUnicodesFullOnes) {
  const auto upper = [](char32_t c) {
    std::string out;
    append_upper(c, &out);
    return out;
  };
  EXPECT_EQ(upper('a'), "A");
  EXPECT_EQ(upper(U'ß'), "SS");
  EXPECT_EQ(upper(U'ÿ'), "Ÿ");
  EXPECT_EQ(upper(U'漢'), "漢");
  EXPECT_TRUE(python_is_space(0x3000));
  EXPECT_FALSE(python_is_space(0x200B));
}

TEST(Text, RunsFollowTheirBytes) {
  Text text("ab", true);
  text.append("cd", false);
  text.append("", true);
  text.append("ef", false);
  EXPECT_EQ(text.runs(), (std::vector<Text::Run>{{2, true}, {6, false}}));
  EXPECT_EQ(text.slice(1, 3).runs(), (std::vector<Text::Run>{{1, true}, {2, false}}));
  EXPECT_TRUE(text.from_template_at(1));
  EXPECT_FALSE(text.from_template_at(2));
  Text twice = text;
  twice.append(text);
  EXPECT_EQ(twice.bytes(), "abcdefabcdef");
  EXPECT_EQ(twice.runs(), (std::vector<Text::Run>{{2, true}, {6, false}, {8, true}, {12, false}}));
}

TEST(Dict, EqualKeysOfDifferentTypesAreOneKey) {
  Dict dict;
  dict.set(Value::integer(1), Value::string("a"));
  dict.set(Value::real(1.0), Value::string("b"));
  dict.set(Value::boolean(true), Value::string("c"));
  dict.set(Value::string("1"), Value::string("d"));
  ASSERT_EQ(dict.items.size(), 2u);
  EXPECT_TRUE(dict.items[0].first.is(Kind::kInt));
  EXPECT_EQ(dict.items[0].second.text().view(), "c");
}

TEST(Dict, ManyKeysAreFoundInOrder) {
  Dict dict;
  for (int i = 0; i < 1000; ++i)
    dict.set(Value::string("k" + std::to_string(i)), Value::integer(i));
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(dict.find("k" + std::to_string(i)), static_cast<size_t>(i));
  EXPECT_EQ(dict.find("k"), Dict::npos);
}

TEST(Utf8, IllFormedTextIsSeen) {
  for (const char* good : {"", "a", "\xC3\xA9", "\xE6\xBC\xA2", "\xF0\x9F\x99\x82"})
    EXPECT_TRUE(valid_utf8(good)) << good;
  for (const char* bad : {"\x80", "\xC3", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80",
                          "\xF4\x90\x80\x80", "\xF0\x9F\x99", "\xFF"}) {
    EXPECT_FALSE(valid_utf8(bad)) << bad;
  }
  for (size_t size = 1; size < 40; ++size) {
    std::string text(size, 'a');
    EXPECT_TRUE(valid_utf8(text));
    for (size_t at = 0; at < size; ++at) {
      text[at] = '\x80';
      EXPECT_FALSE(valid_utf8(text)) << at << " of " << size;
      text[at] = 'a';
      if (at + 1 == size) continue;
      text.replace(at, 2, "\xC3\xA9");
      EXPECT_TRUE(valid_utf8(text)) << at << " of " << size;
      text.replace(at, 2, "aa");
    }
  }
}

TEST(Lexer, TokensCarryTheirLines) {
  const auto tokens = lex("a\n{{-\n x\n}}\r\n{# c\n #}b", "t");
  ASSERT_TRUE(tokens);
  ASSERT_EQ(tokens->size(), 7u);
  EXPECT_EQ((*tokens)[0].value, "a");
  EXPECT_EQ((*tokens)[2].value, "x");
  EXPECT_EQ((*tokens)[2].line, 3);
  EXPECT_EQ((*tokens)[4].value, "\n");
  EXPECT_EQ((*tokens)[5].value, "b");
  EXPECT_EQ((*tokens)[5].line, 6);
}

TEST(Int, PrintsItsWholeRange) {
  EXPECT_EQ(int_to_string(0), "0");
  EXPECT_EQ(int_to_string(Int{1} << 126), "85070591730234615865843651857942052864");
  EXPECT_EQ(int_to_string((Int{1} << 126) * -2), "-170141183460469231731687303715884105728");
}

}  // namespace
}  // namespace minim::jinja
