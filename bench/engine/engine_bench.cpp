// Many sequences at once: what they gain and what they cost each other.
//
// Usage: engine_bench MODEL_DIR [THREADS [PAIRS [PROMPT]]]. One run, one machine, ratios:
//   batch      tokens/s of 8 sequences that decode over those of one; pairs, median
//   overhead   share of a step of 8 that is planning, drawing and telling
//   mixed      time between tokens of one answer while a long prompt is being computed, over its
//              time alone: mean (what the slack bounds), median and worst
//   cached     time to the first token of a prompt, cold over 95 % cached
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/measure.h"

namespace minim {
namespace {

constexpr int kMany = 8;

std::vector<int32_t> tokens(int n, int salt, int vocab) {
  std::vector<int32_t> out;
  for (int i = 0; i < n; ++i) out.push_back((i * 7919 + salt * 104729 + i * i % 251) % vocab);
  return out;
}

GenerateRequest request(std::vector<int32_t> prompt, int64_t max_tokens) {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0.8;
  request.sampling.top_p = 0.95;
  return request;
}

class Bench {
 public:
  Bench(Runtime& runtime, Engine& engine) : runtime_(runtime), engine_(engine) {}

  // n sequences behind their prompts, ready to decode.
  std::vector<Ticket> decoding(int n) {
    std::vector<Ticket> tickets;
    for (int i = 0; i < n; ++i) {
      Result<Ticket> ticket = engine_.submit(request(tokens(64, ++salt_, vocab()), 1 << 20));
      if (!ticket) std::exit(fail(ticket.error()));
      tickets.push_back(*std::move(ticket));
    }
    do {
      engine_.step();
    } while (engine_.stats().step_decode_rows != n);
    return tickets;
  }
  void end(std::vector<Ticket>& tickets) {
    tickets.clear();
    while (engine_.step()) {
    }
  }
  double seconds_of_steps(int n) {
    const double start = now_seconds();
    for (int i = 0; i < n; ++i) engine_.step();
    return (now_seconds() - start) / n;
  }

  void batch(int n_pairs) {
    constexpr int kSteps = 6;
    std::vector<double> ratios, overheads;
    std::printf("pair,one_tokens_per_s,eight_tokens_per_s,ratio,overhead\n");
    for (int pair = 0; pair < n_pairs; ++pair) {
      std::vector<Ticket> one = decoding(1);
      const double alone = seconds_of_steps(kSteps);
      end(one);
      std::vector<Ticket> many = decoding(kMany);
      const EngineStats before = engine_.stats();
      const double together = seconds_of_steps(kSteps);
      const EngineStats after = engine_.stats();
      end(many);
      const double other = after.schedule_seconds - before.schedule_seconds + after.sample_seconds -
                           before.sample_seconds;
      const double all = other + after.forward_seconds - before.forward_seconds;
      ratios.push_back(kMany * alone / together);
      overheads.push_back(other / all);
      std::printf("%d,%.2f,%.2f,%.2f,%.4f\n", pair, 1 / alone, kMany / together, ratios.back(),
                  overheads.back());
      std::fflush(stdout);
    }
    std::printf("# batch: %d sequences decode %.2f times the tokens/s of one (median)\n", kMany,
                median(ratios));
    std::printf("# overhead: planning, drawing and telling take %.2f %% of a step of %d (median)\n",
                100 * median(overheads), kMany);
  }

  void mixed(int n_prompt, double most_seconds) {
    std::vector<Ticket> one = decoding(1);
    std::vector<double> alone;
    for (int i = 0; i < 30; ++i) alone.push_back(seconds_of_steps(1));
    Result<Ticket> prompt = engine_.submit(request(tokens(n_prompt, ++salt_, vocab()), 1));
    if (!prompt) std::exit(fail(prompt.error()));
    const uint64_t rows_before = engine_.stats().prefill_rows;
    std::vector<double> between;
    const double start = now_seconds();
    double total = 0;
    while (!prompt->done() && now_seconds() - start < most_seconds) {
      between.push_back(seconds_of_steps(1));
      total += between.back();
      while (prompt->next(std::chrono::milliseconds(0))) {
      }
    }
    const uint64_t rows = engine_.stats().prefill_rows - rows_before;
    const double base = median(alone), mean = total / static_cast<double>(between.size());
    const double worst = *std::max_element(between.begin(), between.end());
    std::printf(
        "# mixed: %zu tokens in %.0f s beside %llu of %d prompt rows (%.1f rows/s); time "
        "between tokens over alone: mean %.3f, median %.3f, worst %.2f\n",
        between.size(), total, static_cast<unsigned long long>(rows), n_prompt,
        static_cast<double>(rows) / total, mean / base, median(between) / base, worst / base);
    { Ticket gone = *std::move(prompt); }
    end(one);
  }

  double first_token(const std::vector<int32_t>& prompt) {
    const double start = now_seconds();
    Result<Ticket> ticket = engine_.submit(request(prompt, 1));
    if (!ticket) std::exit(fail(ticket.error()));
    while (!ticket->done()) {
      engine_.step();
      while (ticket->next(std::chrono::milliseconds(0))) {
      }
    }
    return now_seconds() - start;
  }

  void cached(int n_prompt) {
    const std::vector<int32_t> stem = tokens(n_prompt, ++salt_, vocab());
    std::vector<int32_t> other = stem;
    const int n_cached = n_prompt / 20 * 19 / 128 * 128;
    for (size_t i = static_cast<size_t>(n_prompt / 20 * 19); i < other.size(); ++i) {
      other[i] = (other[i] + 1) % vocab();
    }
    const double cold = first_token(stem), warm = first_token(other);
    std::printf(
        "# cached: a prompt of %d tokens with %d cached starts %.1f times as soon (%.2f s, "
        "%.2f s)\n",
        n_prompt, n_cached, cold / warm, cold, warm);
  }

  static int fail(const Error& error) {
    std::fprintf(stderr, "engine_bench: %s\n", error.message.c_str());
    return 1;
  }

 private:
  int vocab() const { return runtime_.config().vocab; }

  Runtime& runtime_;
  Engine& engine_;
  int salt_ = 0;
};

int run(RuntimeOptions options, int n_pairs, int n_prompt) {
  options.context = n_prompt + 256;
  options.extra_rows = 16;
  options.kv_bytes = kAllMemory;
  {
    // Room for the long prompt and the short ones, no more.
    Result<std::unique_ptr<Runtime>> probe = Runtime::load(options, {});
    if (!probe) return Bench::fail(probe.error());
    const size_t blocks = static_cast<size_t>((*probe)->context()) / kBlockTokens + 4 * kMany;
    options.kv_bytes = (*probe)->layout().block_bytes * blocks;
  }
  Result<std::unique_ptr<Runtime>> runtime = Runtime::load(options, {});
  if (!runtime) return Bench::fail(runtime.error());
  Result<std::unique_ptr<Engine>> engine = Engine::make(**runtime, {});
  if (!engine) return Bench::fail(engine.error());
  std::printf("# cpu %s, tier %s, threads %d, chunk %d\n", cpu_model().c_str(),
              std::string((*runtime)->isa()).c_str(), (*runtime)->n_threads(), (*runtime)->chunk());
  Bench bench(**runtime, **engine);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  bench.batch(n_pairs);
  bench.mixed(n_prompt, 120);
  bench.cached(std::min(n_prompt, 2560));
  return 0;
}

}  // namespace
}  // namespace minim

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: engine_bench MODEL_DIR [THREADS [PAIRS [PROMPT]]]\n");
    return 2;
  }
  minim::RuntimeOptions options;
  options.model_dir = argv[1];
  options.n_threads = argc > 2 ? std::atoi(argv[2]) : 0;
  const int pairs = argc > 3 ? std::max(1, std::atoi(argv[3])) : 5;
  const int prompt = argc > 4 ? std::max(256, std::atoi(argv[4])) : 16384;
  return minim::run(options, pairs, prompt);
}
