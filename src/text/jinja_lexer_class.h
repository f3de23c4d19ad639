// The lexer as a class, shared by the files that implement it: data, tags and whitespace control in
// jinja_lexer.cpp, what stands inside tags in jinja_lex_tag.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja_lexer.h"

namespace minim::jinja {

class Lexer {
 public:
  Lexer(std::string source, std::string_view name) : src_(std::move(source)), name_(name) {}

  // All tokens. To be called once.
  Result<std::vector<LexedToken>> run();

 private:
  void fail(std::string what);
  void add(Token type, std::string value = "");
  bool at(std::string_view what) const {
    return std::string_view(src_).substr(pos_, what.size()) == what;
  }
  char peek(size_t ahead = 0) const {
    return pos_ + ahead < src_.size() ? src_[pos_ + ahead] : '\0';
  }
  void advance(size_t n);
  // Bytes of whitespace that begin at `pos`.
  size_t space_at(size_t pos) const;
  static std::string_view rstrip(std::string_view text);
  // The data before a tag at `tag`, after the tag's own sign and lstrip_blocks were applied.
  std::string_view before_tag(std::string_view data, char sign, bool variable) const;
  void emit_data(std::string_view data);
  void root();
  // Moves past `end_size` bytes of a closing delimiter and what trim_blocks or "-" removes behind
  // it.
  void close(char sign, size_t end_size, bool trim);
  void comment();
  // {% raw %}...{% endraw %}; false if this block is something else.
  bool raw_block(size_t tag_size);
  void block(size_t tag_size);
  // Tokens up to the closing delimiter of a block or variable tag.
  void inside(bool is_block);
  bool try_close(bool is_block);
  void token(std::string* closers);
  bool balance(std::string_view op, std::string* closers);
  void name();
  // Digits with single underscores between them, from `p`; the end, or `p` if there are none.
  size_t digits(size_t p, int base) const;
  void number();
  static std::string without_underscores(std::string_view text);
  void real(size_t end);
  void integer(size_t end);
  void string(char quote);
  bool unescape(std::string_view text, std::string* out);
  bool hex_escape(std::string_view text, size_t* i, size_t n, std::string* out);

  std::string src_;
  std::string name_;
  size_t pos_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<LexedToken> tokens_;
  std::optional<Error> error_;
};

}  // namespace minim::jinja
