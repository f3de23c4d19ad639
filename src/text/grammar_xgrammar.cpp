// Grammars by xgrammar: the only file that knows it.
//
// Its vocabulary is ours with one change: an added token gets the bytes FF and its number. No
// grammar over characters can reach byte FF, so text never contains a control token, not even where
// it may hold anything; Token(id) of a grammar can (empty bytes would forbid that too). Ids without
// token have empty bytes: it never allows those. Its log is dropped and its exceptions end here;
// their text names source files, so only a line and a column are taken from it.
//
// Masks are made when a state is first reached, not at compile time: a schema of a thousand states
// compiles in milliseconds, and a reply pays for the states that it visits.
#include <dlpack/dlpack.h>
#include <fmt/format.h>
#include <xgrammar/compiler.h>
#include <xgrammar/matcher.h>
#include <xgrammar/tokenizer_info.h>

#include <algorithm>
#include <regex>
#include <stdexcept>

#include "base/check.h"
#include "text/grammar_engine.h"

namespace xgrammar {

// Built with XGRAMMAR_LOG_CUSTOMIZE: what its log does is ours to define.
[[noreturn]] void LogFatalImpl(const std::string& /*file*/, int /*line*/,
                               const std::string& message) {
  throw std::runtime_error(message);
}
void LogMessageImpl(const std::string& /*file*/, int /*line*/, int /*level*/,
                    const std::string& /*message*/) {}

}  // namespace xgrammar

namespace minim {
namespace {

// Masks that different grammars share (a JSON string's, say); the library takes a third of this for
// them, and keeps whole grammars only where masks are made at once.
constexpr int64_t kSharedMaskBytes = int64_t{192} << 20;

// After a failure inside the library the matcher allows nothing: a caller that has no token to
// choose from ends the reply.
class XgrammarMatcher final : public MatcherEngine {
 public:
  XgrammarMatcher(const xgrammar::CompiledGrammar& grammar, int n_ids)
      : matcher_(grammar), n_ids_(n_ids) {}

  std::unique_ptr<MatcherEngine> copy() const override {
    return std::unique_ptr<MatcherEngine>(new XgrammarMatcher(matcher_.Fork(), n_ids_, failed_));
  }

  void allowed(TokenBits& bits) override {
    bits.assign((static_cast<size_t>(n_ids_) + 31) / 32, 0);
    if (ended()) return;
    int64_t size = static_cast<int64_t>(bits.size());
    DLTensor tensor{bits.data(), {kDLCPU, 0}, 1, xgrammar::GetBitmaskDLType(), &size, nullptr, 0};
    if (!guarded([&] { return matcher_.FillNextTokenBitmask(&tensor), true; })) {
      std::fill(bits.begin(), bits.end(), 0);
      return;
    }
    // The library sets whole words.
    if (n_ids_ % 32 != 0) bits.back() &= (uint32_t{1} << (n_ids_ % 32)) - 1;
  }

  bool accept(TokenId token) override {
    if (token < 0 || token >= n_ids_ || ended()) return false;
    return guarded([&] { return matcher_.AcceptToken(token); });
  }

  bool accept_text(std::string_view text) override {
    if (ended()) return false;
    return guarded([&] { return matcher_.AcceptString(std::string(text)); });
  }

  bool may_end() const override { return !failed_ && !ended() && matcher_.IsCompleted(); }
  bool ended() const override { return matcher_.IsTerminated(); }

  std::string forced_text() override {
    std::string text;
    if (!ended()) guarded([&] { return text = matcher_.FindJumpForwardString(), true; });
    return failed_ ? std::string() : text;
  }

 private:
  XgrammarMatcher(xgrammar::GrammarMatcher matcher, int n_ids, bool failed)
      : matcher_(std::move(matcher)), n_ids_(n_ids), failed_(failed) {}

  template <typename Call>
  bool guarded(Call call) {
    if (failed_) return false;
    try {
      return call();
    } catch (const std::bad_alloc&) {
      throw;  // the program's own affair
    } catch (const std::exception&) {
      failed_ = true;
      return false;
    }
  }

  xgrammar::GrammarMatcher matcher_;
  int n_ids_;
  bool failed_ = false;
};

class XgrammarGrammar final : public CompiledGrammar {
 public:
  XgrammarGrammar(xgrammar::CompiledGrammar grammar, const Tokenizer& tokenizer)
      : grammar_(std::move(grammar)), tokenizer_(tokenizer) {}
  std::unique_ptr<MatcherEngine> start() const override {
    return std::make_unique<XgrammarMatcher>(grammar_, tokenizer_.n_ids());
  }
  const Tokenizer& tokenizer() const override { return tokenizer_; }
  size_t bytes() const override { return grammar_.MemorySizeBytes(); }

 private:
  xgrammar::CompiledGrammar grammar_;
  const Tokenizer& tokenizer_;
};

// What can be said about a grammar that the library does not take: where.
Error not_a_grammar(const std::string& reason) {
  std::smatch place;
  if (std::regex_search(reason, place, std::regex("line ([0-9]+), column ([0-9]+)"))) {
    return {Code::kInvalid, fmt::format("the grammar has a mistake at line {}, column {}",
                                        place[1].str(), place[2].str())};
  }
  return {Code::kInvalid, "the grammar cannot be compiled"};
}

class XgrammarEngine final : public GrammarEngine {
 public:
  XgrammarEngine(const Tokenizer& tokenizer, const std::vector<std::string>& vocabulary,
                 const std::vector<int32_t>& stop_ids)
      : tokenizer_(tokenizer),
        compiler_(xgrammar::TokenizerInfo(vocabulary, xgrammar::VocabType::RAW, tokenizer.n_ids(),
                                          stop_ids),
                  /*max_threads=*/1, /*cache_enabled=*/true, kSharedMaskBytes,
                  /*enable_dynamic_compilation=*/true) {}

  Result<std::shared_ptr<const CompiledGrammar>> compile(const std::string& ebnf) override {
    try {
      return std::shared_ptr<const CompiledGrammar>(
          std::make_shared<XgrammarGrammar>(compiler_.CompileGrammar(ebnf, "root"), tokenizer_));
    } catch (const std::bad_alloc&) {
      return Error{Code::kExhausted, "out of memory while compiling a grammar"};
    } catch (const std::exception& e) {
      return not_a_grammar(e.what());
    }
  }

 private:
  const Tokenizer& tokenizer_;
  xgrammar::GrammarCompiler compiler_;
};

std::vector<std::string> vocabulary_of(const Tokenizer& tokenizer) {
  std::vector<std::string> vocabulary(static_cast<size_t>(tokenizer.n_ids()));
  for (TokenId id = 0; id < tokenizer.n_ids(); ++id) {
    if (!tokenizer.has_token(id)) continue;
    vocabulary[static_cast<size_t>(id)] =
        tokenizer.is_added(id) ? fmt::format("\xff{}", id) : std::string(tokenizer.bytes(id));
  }
  return vocabulary;
}

}  // namespace

bool GrammarEngine::available() { return true; }

Result<std::unique_ptr<GrammarEngine>> GrammarEngine::create(const Tokenizer& tokenizer,
                                                             std::span<const TokenId> stop_ids) {
  std::vector<int32_t> stops;
  for (const TokenId id : stop_ids) {
    if (tokenizer.has_token(id)) stops.push_back(id);
  }
  try {
    return std::unique_ptr<GrammarEngine>(
        std::make_unique<XgrammarEngine>(tokenizer, vocabulary_of(tokenizer), stops));
  } catch (const std::bad_alloc&) {
    return Error{Code::kExhausted, "out of memory while preparing grammars"};
  } catch (const std::exception&) {
    return Error{Code::kUnsupported, "grammars cannot be prepared for this tokenizer"};
  }
}

}  // namespace minim
