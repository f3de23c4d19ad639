// Rendering of a long chat: the family's template by native code and by the interpreter.
//
// usage: template_bench [TEMPLATE [MESSAGES [PAIRS]]]    (default: the demo model's, 600, 20)
//
// Both ways are measured in turn, so that a machine whose speed drifts slows both, and in the
// thread's own time, so that other programs slow neither. In front of each measured call stands one
// that is not: the allocator gives memory back to the system behind the interpreter's call, and
// fetching it again is not part of the native one. Prints one CSV row a pair, and the medians with
// their ratio.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "support/conversations.h"
#include "text/chat_template.h"

namespace minim {
namespace {

using Way = ChatTemplate::Way;

double thread_milliseconds() {
  std::timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

double milliseconds(const ChatTemplate& chat, const Json& vars, Way way, size_t* bytes) {
  ChatTemplate::Options options;
  options.way = way;
  const double start = thread_milliseconds();
  const auto segments = chat.render(vars, options);
  const double end = thread_milliseconds();
  if (!segments) {
    std::fprintf(stderr, "%s\n", segments.error().message.c_str());
    std::exit(1);
  }
  *bytes = ChatTemplate::join(*segments).size();
  return end - start;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int run(int argc, char** argv) {
  const std::string path = argc > 1 ? argv[1] : MINIM_DEMO_MODEL "/chat_template.jinja";
  const size_t n_messages = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 600;
  const size_t pairs = argc > 3 ? std::max(std::strtoul(argv[3], nullptr, 10), 1ul) : 20;
  const Result<ChatTemplate> chat = ChatTemplate::load(path);
  if (!chat) {
    std::fprintf(stderr, "%s\n", chat.error().message.c_str());
    return 1;
  }
  const Json vars = testing::long_chat(n_messages);
  std::vector<double> native, interpreter;
  size_t bytes = 0;
  std::printf("pair,native_ms,interpreter_ms\n");
  for (size_t i = 0; i < pairs; ++i) {
    for (const bool counts : {false, true}) {
      const double took = milliseconds(*chat, vars, Way::kNative, &bytes);
      if (counts) native.push_back(took);
    }
    for (const bool counts : {false, true}) {
      const double took = milliseconds(*chat, vars, Way::kInterpreter, &bytes);
      if (counts) interpreter.push_back(took);
    }
    std::printf("%zu,%.3f,%.3f\n", i, native.back(), interpreter.back());
  }
  std::printf(
      "# %zu messages, %zu bytes: native %.3f ms (%.0f MB/s), interpreter %.3f ms, ratio %.1f\n",
      n_messages, bytes, median(native), static_cast<double>(bytes) / median(native) / 1e3,
      median(interpreter), median(interpreter) / median(native));
  return 0;
}

}  // namespace
}  // namespace minim

int main(int argc, char** argv) { return minim::run(argc, argv); }
