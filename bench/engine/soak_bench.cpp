// Whether memory stays what was budgeted: requests come, share, end and are cancelled for a while.
//
// Usage: soak_bench MODEL_DIR [MINUTES [THREADS]]. Prints the resident memory beside the budget
// (weights, pool, host level) every half minute; exit code 1 when it grew by more than 2 % and
// 4 MiB over the last three quarters of the time, the first being for pages that are used once.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/measure.h"

namespace minim {
namespace {

double resident_mib() {
  std::ifstream in("/proc/self/statm");
  size_t total = 0, resident = 0;
  in >> total >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1048576.0;
}

int fail(const Error& error) {
  std::fprintf(stderr, "soak_bench: %s\n", error.message.c_str());
  return 1;
}

class Soak {
 public:
  Soak(Runtime& runtime, Engine& engine) : runtime_(runtime), engine_(engine) {}

  void round() {
    if (tickets_.size() < 12 && random_() % 3 == 0) submit();
    if (!tickets_.empty() && random_() % 50 == 0) {
      tickets_.erase(tickets_.begin() + static_cast<ptrdiff_t>(random_() % tickets_.size()));
    }
    engine_.step(true);
    std::erase_if(tickets_, [](Ticket& ticket) {
      while (ticket.next(std::chrono::milliseconds(0))) {
      }
      return ticket.done();
    });
  }
  uint64_t n_requests() const { return n_requests_; }

 private:
  void submit() {
    GenerateRequest request;
    const int vocab = runtime_.config().vocab;
    const int length =
        1 + static_cast<int>(random_() % static_cast<uint64_t>(runtime_.context() / 2));
    const int stem = static_cast<int>(random_() % 6);
    for (int i = 0; i < length; ++i) {
      const bool own = i > length * 3 / 4;
      request.prompt.push_back(own ? static_cast<int32_t>(random_() % static_cast<uint64_t>(vocab))
                                   : (i * 7919 + stem * 104729) % vocab);
    }
    request.max_tokens = 1 + static_cast<int64_t>(random_() % 40);
    request.sampling.seed = random_();
    request.sampling.repetition_penalty = 1.1;
    request.logprobs = random_() % 4 == 0 ? 5 : -1;
    request.client = std::to_string(random_() % 1000);
    Result<Ticket> ticket = engine_.submit(std::move(request));
    if (!ticket) std::exit(fail(ticket.error()));
    tickets_.push_back(*std::move(ticket));
    ++n_requests_;
  }

  Runtime& runtime_;
  Engine& engine_;
  std::mt19937_64 random_{1};
  std::vector<Ticket> tickets_;
  uint64_t n_requests_ = 0;
};

int run(const RuntimeOptions& options, double minutes) {
  Result<std::unique_ptr<Runtime>> runtime = Runtime::load(options, {});
  if (!runtime) return fail(runtime.error());
  EngineOptions engine_options;
  engine_options.max_sequences = 8;
  engine_options.tiers.host_bytes = (*runtime)->cache_bytes() / 2;
  const double budget =
      static_cast<double>((*runtime)->weights_bytes() + (*runtime)->cache_bytes() +
                          engine_options.tiers.host_bytes) /
      1048576.0;
  Result<std::unique_ptr<Engine>> engine = Engine::make(**runtime, std::move(engine_options));
  if (!engine) return fail(engine.error());
  Soak soak(**runtime, **engine);
  const double start = now_seconds(), end = start + 60 * minutes;
  double printed = start, early = 0;
  std::printf("minutes,resident_mib,budget_mib,requests,preemptions\n");
  for (double now = start; now < end; now = now_seconds()) {
    soak.round();
    if (early == 0 && now > start + 15 * minutes) early = resident_mib();
    if (now - printed < 30) continue;
    printed = now;
    std::printf("%.1f,%.1f,%.1f,%llu,%llu\n", (now - start) / 60, resident_mib(), budget,
                static_cast<unsigned long long>(soak.n_requests()),
                static_cast<unsigned long long>((*engine)->stats().preemptions));
    std::fflush(stdout);
  }
  const double late = resident_mib();
  std::printf("# resident %.1f MiB after a quarter, %.1f at the end (budget %.1f)\n", early, late,
              budget);
  return late > early * 1.02 + 4 ? 1 : 0;
}

}  // namespace
}  // namespace minim

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: soak_bench MODEL_DIR [MINUTES [THREADS]]\n");
    return 2;
  }
  minim::RuntimeOptions options;
  options.model_dir = argv[1];
  options.context = 1024;
  options.extra_rows = 8;
  options.kv_bytes = uint64_t{24} << 20;
  options.n_threads = argc > 3 ? std::atoi(argv[3]) : 1;
  return minim::run(options, argc > 2 ? std::atof(argv[2]) : 10);
}
