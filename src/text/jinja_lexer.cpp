// Text outside tags decides most prompt bytes, so whitespace control follows jinja2's lexer case by
// case:
//   "-" beside a delimiter strips all whitespace on that side; "+" switches lstrip_blocks /
//   trim_blocks off there; lstrip_blocks removes blanks between the line's start and a block or
//   comment tag (never a variable tag); trim_blocks removes one line end behind a block or comment
//   tag (never behind {% raw %} itself).
// A closing delimiter inside brackets is not one: "{{ {'a': {}} }}" works because brackets are
// balanced first. jinja2 builds this from regular expressions; a hand-written scanner needs no
// engine and cannot backtrack.
#include "text/jinja_lexer.h"

#include <fmt/format.h>

#include "text/jinja_lexer_class.h"
#include "text/python_chars.h"

namespace minim::jinja {
namespace {

std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

}  // namespace

Result<std::vector<LexedToken>> Lexer::run() {
  while (pos_ < src_.size() && !error_) root();
  if (error_) return *error_;
  add(Token::kEnd);
  return std::move(tokens_);
}

void Lexer::fail(std::string what) {
  if (!error_) error_ = Error{Code::kInvalid, fmt::format("{}:{}: {}", name_, line_, what)};
}

void Lexer::add(Token type, std::string value) {
  LexedToken token;
  token.type = type;
  token.value = std::move(value);
  token.line = line_;
  tokens_.push_back(std::move(token));
}

void Lexer::advance(size_t n) {
  for (size_t i = 0; i < n; ++i) line_ += src_[pos_ + i] == '\n';
  pos_ += n;
}

size_t Lexer::space_at(size_t pos) const {
  const size_t start = pos;
  while (pos < src_.size()) {
    size_t next = pos;
    if (!python_is_space(next_code_point(src_, &next))) break;
    pos = next;
  }
  return pos - start;
}

std::string_view Lexer::rstrip(std::string_view text) {
  size_t keep = 0;
  for (size_t pos = 0; pos < text.size();) {
    if (!python_is_space(next_code_point(text, &pos))) keep = pos;
  }
  return text.substr(0, keep);
}

std::string_view Lexer::before_tag(std::string_view data, char sign, bool variable) const {
  if (sign == '-') return rstrip(data);
  if (sign == '+' || variable) return data;
  const size_t newline = data.rfind('\n');
  const size_t start = newline == std::string_view::npos ? 0 : newline + 1;
  if ((start > 0 || line_starting_) && rstrip(data.substr(start)).empty())
    return data.substr(0, start);
  return data;
}

void Lexer::emit_data(std::string_view data) {
  if (!data.empty()) add(Token::kData, std::string(data));
}

void Lexer::root() {
  size_t tag = pos_;
  for (;; ++tag) {
    tag = src_.find('{', tag);
    if (tag == std::string::npos || tag + 1 >= src_.size()) {
      emit_data(std::string_view(src_).substr(pos_));
      pos_ = src_.size();
      return;
    }
    const char c = src_[tag + 1];
    if (c == '{' || c == '%' || c == '#') break;
  }
  const char kind = src_[tag + 1];
  const char sign = tag + 2 < src_.size() && (src_[tag + 2] == '-' || src_[tag + 2] == '+')
                        ? src_[tag + 2]
                        : '\0';
  emit_data(before_tag(std::string_view(src_).substr(pos_, tag - pos_), sign, kind == '{'));
  advance(tag - pos_);
  const size_t tag_size = sign ? 3 : 2;
  line_starting_ = false;
  if (kind == '#') {
    advance(tag_size);
    comment();
  } else if (kind == '%') {
    if (!raw_block(tag_size)) block(tag_size);
  } else {
    add(Token::kVariableBegin);
    advance(tag_size);
    inside(false);
  }
}

void Lexer::close(char sign, size_t end_size, bool trim) {
  size_t n = end_size + (sign ? 1 : 0);
  if (sign == '-') {
    n += space_at(pos_ + n);
  } else if (trim && sign != '+' && pos_ + n < src_.size() && src_[pos_ + n] == '\n') {
    ++n;
  }
  line_starting_ = src_[pos_ + n - 1] == '\n';
  advance(n);
}

void Lexer::comment() {
  const size_t end = src_.find("#}", pos_);
  if (end == std::string::npos) return fail("missing end of comment tag");
  char sign = '\0';
  size_t close_at = end;
  if (end > pos_ && (src_[end - 1] == '-' || src_[end - 1] == '+')) {
    sign = src_[end - 1];
    --close_at;
  }
  advance(close_at - pos_);
  close(sign, 2, true);
}

bool Lexer::raw_block(size_t tag_size) {
  size_t p = pos_ + tag_size;
  p += space_at(p);
  if (src_.compare(p, 3, "raw") != 0) return false;
  p += 3;
  p += space_at(p);
  const bool strip = p < src_.size() && src_[p] == '-';
  if (strip) ++p;
  if (src_.compare(p, 2, "%}") != 0) return false;
  p += 2;
  if (strip) p += space_at(p);
  line_starting_ = src_[p - 1] == '\n';
  advance(p - pos_);
  for (size_t tag = src_.find("{%", pos_); tag != std::string::npos;
       tag = src_.find("{%", tag + 1)) {
    size_t q = tag + 2;
    const char sign = q < src_.size() && (src_[q] == '-' || src_[q] == '+') ? src_[q] : '\0';
    if (sign) ++q;
    q += space_at(q);
    if (src_.compare(q, 6, "endraw") != 0) continue;
    q += 6;
    q += space_at(q);
    const char end_sign = q < src_.size() && (src_[q] == '-' || src_[q] == '+') ? src_[q] : '\0';
    if (src_.compare(q + (end_sign ? 1 : 0), 2, "%}") != 0) continue;
    emit_data(before_tag(std::string_view(src_).substr(pos_, tag - pos_), sign, false));
    advance(q - pos_);
    close(end_sign, 2, true);
    return true;
  }
  fail("missing end of raw directive");
  return true;
}

void Lexer::block(size_t tag_size) {
  add(Token::kBlockBegin);
  advance(tag_size);
  inside(true);
}

void Lexer::inside(bool is_block) {
  std::string closers;
  while (!error_) {
    advance(space_at(pos_));
    if (pos_ >= src_.size()) return;  // the parser reports what is missing
    if (closers.empty() && try_close(is_block)) return;
    token(&closers);
  }
}

bool Lexer::try_close(bool is_block) {
  const std::string_view end = is_block ? "%}" : "}}";
  const char c = peek();
  const bool sign = c == '-' || (c == '+' && is_block);
  if (!(std::string_view(src_).substr(pos_ + (sign ? 1 : 0), 2) == end)) return false;
  add(is_block ? Token::kBlockEnd : Token::kVariableEnd);
  close(sign ? c : '\0', 2, is_block);
  return true;
}

Result<std::vector<LexedToken>> lex(std::string_view source, std::string_view name) {
  return Lexer(normalize_newlines(source), name).run();
}

}  // namespace minim::jinja
