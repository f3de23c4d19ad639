// minim doctor: can this model run on this machine, and if not, what is in the way.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "apps/arguments.h"
#include "apps/console.h"
#include "apps/examination.h"
#include "apps/host.h"
#include "apps/model_folder.h"
#include "base/json.h"
#include "engine/memory_budget.h"
#include "kernels/kernels.h"

namespace minim {
namespace {

struct TierTest {
  std::string name, difference;  // empty: agrees with scalar
};

struct Findings {
  CpuInfo cpu;
  std::vector<TierTest> tiers;
  std::string selected;  // empty: none
  MemoryBudget memory;
  std::string huge_pages;
  Result<DiskSpeed> disk = Error{};
  std::string folder;
  Examination model;
  std::vector<std::string> machine_problems;
  bool can_run() const { return model.problems.empty() && machine_problems.empty(); }
  std::vector<std::string> all_problems() const {
    std::vector<std::string> all = machine_problems;
    all.insert(all.end(), model.problems.begin(), model.problems.end());
    return all;
  }
};

void test_tiers(const std::string& isa, Findings& findings) {
  constexpr int kLongTest = 50;
  for (const Kernels* tier : available_kernels()) {
    findings.tiers.push_back({tier->name, std::string(self_test(*tier, kLongTest))});
  }
  Result<KernelChoice> choice = choose_kernels(isa);
  if (!choice) {
    findings.machine_problems.push_back(choice.error().message);
    return;
  }
  findings.selected = choice->kernels->name;
  for (const TierTest& tier : findings.tiers) {
    if (tier.name != findings.selected || tier.difference.empty()) continue;
    findings.machine_problems.push_back(fmt::format(
        "{} gives other bits than scalar in {}; --isa scalar is safe", tier.name, tier.difference));
  }
}

void check_memory(Findings& findings) {
  const uint64_t needed = findings.model.weights_bytes + findings.model.cache_bytes;
  if (needed <= findings.memory.available) return;
  findings.machine_problems.push_back(fmt::format(
      "weights and cache for a context of {} tokens need {}, {} are available",
      findings.model.context, format_bytes(needed), format_bytes(findings.memory.available)));
}

Json optional_bytes(uint64_t bytes) { return bytes == 0 ? Json(nullptr) : Json(bytes); }

Json model_json(const Findings& findings) {
  const Examination& model = findings.model;
  Json out{{"path", findings.folder},           {"ok", model.problems.empty()},
           {"problems", model.problems},        {"notes", model.notes},
           {"unknown_tensors", model.unknown},  {"weights_bytes", model.weights_bytes},
           {"vision_bytes", model.vision_bytes}};
  if (!model.config) return out;
  out["layers"] = model.config->n_layers;
  out["vocab"] = model.config->vocab;
  out["max_positions"] = model.config->max_positions;
  out["kv_dtype"] = kv_format_name(model.formats.main);
  out["index_dtype"] = kv_format_name(model.formats.index);
  out["kv_bytes_per_token"] = Json{
      {"k", model.kv.k}, {"v", model.kv.v}, {"index", model.kv.index}, {"total", model.kv.total()}};
  out["context"] = model.context;
  out["cache_bytes"] = model.cache_bytes;
  out["expected_memory_bytes"] = model.weights_bytes + model.cache_bytes;
  return out;
}

Json to_json(const Findings& findings) {
  Json available = Json::array(), tests = Json::object();
  for (const TierTest& tier : findings.tiers) {
    available.push_back(tier.name);
    tests[tier.name] = tier.difference.empty() ? "ok" : "differs in " + tier.difference;
  }
  Json disk{{"path", findings.folder}, {"read_bytes_per_s", nullptr}};
  if (findings.disk) {
    disk["read_bytes_per_s"] = findings.disk->bytes_per_second();
    disk["read_bytes"] = findings.disk->bytes;
    disk["direct"] = findings.disk->direct;
  }
  const MemoryBudget& memory = findings.memory;
  return Json{{"ok", findings.can_run()},
              {"problems", findings.all_problems()},
              {"cpu",
               {{"model", findings.cpu.model},
                {"processors", findings.cpu.processors},
                {"usable", findings.cpu.usable},
                {"flags", findings.cpu.flags}}},
              {"isa",
               {{"selected", findings.selected.empty() ? Json(nullptr) : Json(findings.selected)},
                {"available", available},
                {"self_test", tests}}},
              {"memory",
               {{"total_bytes", memory.total},
                {"available_bytes", memory.available},
                {"cgroup_limit_bytes", optional_bytes(memory.cgroup_limit)},
                {"address_limit_bytes", optional_bytes(memory.address_limit)},
                {"transparent_huge_pages",
                 findings.huge_pages.empty() ? Json(nullptr) : Json(findings.huge_pages)}}},
              {"disk", disk},
              {"model", model_json(findings)}};
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::string row(const char* name, const std::string& value) {
  return fmt::format("{:<12}{}\n", name, value);
}

std::string machine_table(const Findings& findings) {
  const CpuInfo& cpu = findings.cpu;
  const MemoryBudget& memory = findings.memory;
  std::string out = row("processor", fmt::format("{}, {} processors, {} usable", cpu.model,
                                                 cpu.processors, cpu.usable));
  out += row("", joined(cpu.flags));
  for (const TierTest& tier : findings.tiers) {
    out += row("kernels", fmt::format("{}: {}{}", tier.name,
                                      tier.difference.empty() ? "same bits as scalar"
                                                              : "differs in " + tier.difference,
                                      tier.name == findings.selected ? ", selected" : ""));
  }
  std::string limits;
  if (memory.cgroup_limit != 0) {
    limits += fmt::format(", control group {}", format_bytes(memory.cgroup_limit));
  }
  if (memory.address_limit != 0) {
    limits += fmt::format(", address space {}", format_bytes(memory.address_limit));
  }
  out += row("memory", fmt::format("{}, available {}{}", format_bytes(memory.total),
                                   format_bytes(memory.available), limits));
  out += row("huge pages", findings.huge_pages.empty() ? "none" : findings.huge_pages);
  out +=
      row("disk",
          findings.disk
              ? fmt::format("{}/s{}",
                            format_bytes(static_cast<uint64_t>(findings.disk->bytes_per_second())),
                            findings.disk->direct ? "" : " (through the page cache)")
              : findings.disk.error().message);
  return out;
}

std::string model_table(const Findings& findings) {
  constexpr size_t kShown = 5;
  const Examination& model = findings.model;
  std::string out = row("model", findings.folder);
  if (model.config) {
    out += row("", fmt::format("{} layers, {} experts, vocabulary {}, {} positions",
                               model.config->n_layers, model.config->n_experts, model.config->vocab,
                               model.config->max_positions));
    out += row("weights", format_bytes(model.weights_bytes));
    out += row("cache", fmt::format("{} bytes a token (K {}, V {}, index {}), {} and {}",
                                    model.kv.total(), model.kv.k, model.kv.v, model.kv.index,
                                    kv_format_name(model.formats.main),
                                    kv_format_name(model.formats.index)));
    out += row("context", fmt::format("{} tokens need {} of cache, {} in all", model.context,
                                      format_bytes(model.cache_bytes),
                                      format_bytes(model.weights_bytes + model.cache_bytes)));
  }
  for (const std::string& note : model.notes) out += row("note", note);
  for (size_t i = 0; i < model.unknown.size() && i < kShown; ++i) {
    out += row("unknown", model.unknown[i]);
  }
  if (model.unknown.size() > kShown) {
    out += row("unknown", fmt::format("and {} more tensors", model.unknown.size() - kShown));
  }
  for (const std::string& problem : model.problems) out += row("PROBLEM", problem);
  for (const std::string& problem : findings.machine_problems) out += row("PROBLEM", problem);
  return out + row("verdict", findings.can_run() ? "can run" : "cannot run");
}

}  // namespace

int doctor_command(const Arguments& arguments) {
  Result<std::string> folder = model_folder(arguments);
  if (!folder) return fail(folder.error());
  Result<RuntimeOptions> options = runtime_options(arguments, *folder);
  if (!options) return fail(options.error());
  Findings findings;
  findings.folder = *folder;
  findings.cpu = read_cpu_info();
  findings.memory = read_memory_budget();
  findings.huge_pages = huge_page_mode();
  findings.disk = measure_disk(*folder);
  test_tiers(options->isa, findings);
  findings.model = examine_model(*options);
  check_memory(findings);
  if (arguments.on("json")) {
    write_out(dump_json(to_json(findings)) + "\n");
  } else {
    write_out(machine_table(findings) + model_table(findings));
  }
  const int code = finish_output();
  if (code != kDone || findings.can_run()) return code;
  const std::vector<std::string> problems = findings.all_problems();
  const std::string more =
      problems.size() == 1 ? "" : fmt::format(" (and {} more problems)", problems.size() - 1);
  return fail(Error{Code::kUnsupported, "this model cannot run here: " + problems[0] + more});
}

}  // namespace minim
