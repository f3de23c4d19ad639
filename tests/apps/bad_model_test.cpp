// Every way in which a model folder can be wrong ends in one line and code 1, and doctor lists it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "program.h"

namespace minim::testing {
namespace {

const std::string kDemo = MINIM_DEMO_MODEL;

std::vector<std::string> score(const std::string& folder) {
  return {"score", "--model", folder, "--tokens", "1,2,3"};
}

void edit_config(const TempFolder& folder, const std::function<void(Json&)>& edit) {
  Json config = *read_json_file(folder / "config.json");
  edit(config);
  write_file(folder / "config.json", dump_json(config));
}

struct Damage {
  std::string name;
  std::function<void(const TempFolder&)> inflict;
  std::vector<std::string> words;
};

std::vector<Damage> damages() {
  namespace fs = std::filesystem;
  const auto shard = [](const TempFolder& f) { return f / "model-00002-of-00002.safetensors"; };
  const auto patch_header = [shard](const TempFolder& f, const std::string& from,
                                    const std::string& to) {
    std::string bytes = slurp(shard(f));
    const size_t at = bytes.find(from);
    ASSERT_NE(at, std::string::npos);
    ASSERT_EQ(from.size(), to.size());
    bytes.replace(at, from.size(), to);
    write_file(shard(f), bytes);
  };
  return {
      {"no config", [](const TempFolder& f) { fs::remove(f / "config.json"); }, {"config.json"}},
      {"config is no JSON",
       [](const TempFolder& f) { write_file(f / "config.json", "{,"); },
       {"config.json", "JSON"}},
      {"field out of range",
       [](const TempFolder& f) {
         edit_config(f, [](Json& c) { c["text_config"]["num_hidden_layers"] = -4; });
       },
       {"num_hidden_layers", "-4"}},
      {"unknown attention",
       [](const TempFolder& f) {
         edit_config(f, [](Json& c) {
           c["text_config"]["layer_types"] = Json::array({"a", "b", "c", "d"});
         });
       },
       {"layer_types"}},
      {"unknown scaling",
       [](const TempFolder& f) {
         edit_config(f, [](Json& c) { c["text_config"]["rope_scaling"] = {{"type", "yarn"}}; });
       },
       {"rope_scaling"}},
      {"truncated shard",
       [shard](const TempFolder& f) { fs::resize_file(shard(f), fs::file_size(shard(f)) - 1000); },
       {"model-00002-of-00002.safetensors"}},
      {"empty shard",
       [shard](const TempFolder& f) { fs::resize_file(shard(f), 0); },
       {"model-00002-of-00002.safetensors"}},
      {"absent shard",
       [shard](const TempFolder& f) { fs::remove(shard(f)); },
       {"model-00002-of-00002.safetensors"}},
      {"LFS pointer",
       [shard](const TempFolder& f) {
         write_file(shard(f),
                    "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4388280\n");
       },
       {"model-00002-of-00002.safetensors", "LFS"}},
      {"wrong dtype",
       [patch_header](const TempFolder& f) { patch_header(f, "\"BF16\"", "\"XF16\""); },
       {"XF16"}},
      {"wrong shape",
       [](const TempFolder& f) {
         edit_config(f, [](Json& c) { c["text_config"]["intermediate_size"] = 96; });
       },
       {"experts", "96"}},
      {"index without JSON",
       [](const TempFolder& f) { write_file(f / "model.safetensors.index.json", "[]"); },
       {"index.json"}},
      {"missing layer",
       [](const TempFolder& f) {
         edit_config(f, [](Json& c) {
           Json& text = c["text_config"];
           text["num_hidden_layers"] = 5;
           for (const char* key : {"sparse_attention_freq", "sparse_disable_index_value"}) {
             text["sparse_attention_config"][key].push_back(1);
           }
           text["moe_layer_freq"].push_back(1);
         });
       },
       {"layers.4"}},
      {"generation config is no JSON",
       [](const TempFolder& f) { write_file(f / "generation_config.json", "nope"); },
       {"generation_config.json"}},
  };
}

TEST(BadModel, EachDamageIsOneLineOfScoreAndAProblemOfDoctor) {
  for (const Damage& damage : damages()) {
    SCOPED_TRACE(damage.name);
    const TempFolder folder;
    copy_model(golden_model("m3-bf16"), folder);
    damage.inflict(folder);
    expect_refusal(run_minim(score(folder.path())), 1, damage.words);
    const Outcome doctor = run_minim({"doctor", "--json", "--model", folder.path()});
    EXPECT_EQ(doctor.code, 1);
    EXPECT_EQ(doctor.err.rfind("minim: this model cannot run here: ", 0), 0u) << doctor.err;
    const std::vector<Json> lines = doctor.lines();
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(lines[0]["model"]["ok"], false);
    EXPECT_EQ(lines[0]["ok"], false);
    const std::string problems = dump_json(lines[0]["model"]["problems"]);
    for (const std::string& word : damage.words) {
      EXPECT_NE(problems.find(word), std::string::npos) << word << " in " << problems;
    }
  }
}

TEST(BadModel, SeveralProblemsAreAllListedByDoctor) {
  const TempFolder folder;
  copy_model(kDemo, folder);
  write_file(folder / "tokenizer.json", "{}");
  write_file(folder / "chat_template.jinja", "{% for %}");
  std::filesystem::resize_file(folder / "model.safetensors", 100000);
  const Outcome doctor = run_minim({"doctor", "--json", "--model", folder.path()});
  EXPECT_EQ(doctor.code, 1);
  const std::string problems = dump_json(doctor.lines()[0]["model"]["problems"]);
  for (const char* word : {"tokenizer.json", "chat_template.jinja", "model.safetensors"}) {
    EXPECT_NE(problems.find(word), std::string::npos) << word << " in " << problems;
  }
}

TEST(BadModel, ANanWeightIsAnErrorOfScoreNotAProbability) {
  const TempFolder folder;
  copy_model(golden_model("m3-bf16"), folder);
  const std::string shard = folder / "model-00001-of-00002.safetensors";
  std::string bytes = slurp(shard);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  const Json header = *parse_json(std::string_view(bytes).substr(8, header_bytes), shard);
  const size_t begin = header["language_model.lm_head.weight"]["data_offsets"][0];
  const uint16_t nan = 0x7fc0;
  std::memcpy(bytes.data() + 8 + header_bytes + begin, &nan, sizeof nan);
  write_file(shard, bytes);
  const Outcome outcome = run_minim(score(folder.path()));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("token 0 after position 0"), std::string::npos) << outcome.err;
}

TEST(BadModel, ATokenizerOfAnotherModelIsRefused) {
  const TempFolder folder;
  copy_model(kDemo, folder);
  std::filesystem::remove(folder / "tokenizer.json");
  std::filesystem::copy(std::string(MINIM_TEST_DATA) + "/text/tokenizer/tokenizer_large.json",
                        folder / "tokenizer.json");
  expect_refusal(run_minim({"run", "--model", folder.path(), "Hi"}), 1, {"tokenizer.json", "1344"});
}

TEST(BadModel, ABrokenTokenizerConfigIsRefusedWhereTheEndOfAnswersComesFromIt) {
  const TempFolder folder;
  copy_model(kDemo, folder);
  const auto run = [&folder] {
    return run_minim({"run", "--model", folder.path(), "--quiet", "--max-tokens", "2", "Hi"});
  };
  write_file(folder / "tokenizer_config.json", "{\"eos_token\": ");
  EXPECT_EQ(run().code, 0);  // generation_config.json has what is needed
  std::filesystem::remove(folder / "generation_config.json");
  edit_config(folder, [](Json& c) {
    c.erase("eos_token_id");
    if (c.contains("text_config")) c["text_config"].erase("eos_token_id");
  });
  expect_refusal(run(), 1, {"tokenizer_config.json", "JSON"});
  const Outcome doctor = run_minim({"doctor", "--json", "--model", folder.path()});
  EXPECT_EQ(doctor.code, 1);
  EXPECT_NE(dump_json(doctor.lines()[0]["model"]["problems"]).find("tokenizer_config.json"),
            std::string::npos);
  write_file(folder / "tokenizer_config.json", "[]");
  expect_refusal(run(), 1, {"tokenizer_config.json", "object"});
  write_file(folder / "tokenizer_config.json", "{\"eos_token\": \"<nobody>\"}");
  expect_refusal(run(), 1, {"tokenizer_config.json", "eos_token", "<nobody>"});
  write_file(folder / "tokenizer_config.json", "{\"eos_token\": 7}");
  expect_refusal(run(), 1, {"tokenizer_config.json", "eos_token", "7"});
  for (const char* good : {"{}", "{\"eos_token\": null}", "{\"eos_token\": \"[e~[\"}",
                           "{\"eos_token\": {\"content\": \"[e~[\"}}"}) {
    write_file(folder / "tokenizer_config.json", good);
    const Outcome outcome = run();
    EXPECT_EQ(outcome.code, 0) << good << outcome.err;
  }
}

TEST(BadModel, TensorsThatNobodyUnderstandsAreTold) {
  const TempFolder folder;
  copy_model(kDemo, folder);
  std::filesystem::remove(folder / "model.safetensors.index.json");
  // A second file of four tensors of one byte each.
  const Outcome before = run_minim({"run", "--model", folder.path(), "--quiet", "--greedy", "Hi"});
  EXPECT_EQ(before.err, "");
  Json header = Json::object();
  for (size_t i = 0; i < 4; ++i) {
    header["mystery." + std::to_string(i)] = {
        {"dtype", "U8"}, {"shape", {1}}, {"data_offsets", {i, i + 1}}};
  }
  const std::string text = dump_json(header);
  const uint64_t length = text.size();
  write_file(folder / "more.safetensors",
             std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + "abcd");
  const Outcome after = run_minim({"run", "--model", folder.path(), "--quiet", "--greedy", "Hi"});
  EXPECT_EQ(after.code, 0);
  EXPECT_EQ(after.out, before.out);
  EXPECT_EQ(std::count(after.err.begin(), after.err.end(), '\n'), 1) << after.err;
  for (const char* word : {"4 tensors", "mystery.0", "mystery.2\", ...", "doctor"}) {
    EXPECT_NE(after.err.find(word), std::string::npos) << after.err;
  }
}

TEST(BadModel, AMissingTokenizerIsANoteButStopsRun) {
  const std::string model = golden_model("m3-bf16");
  const Outcome doctor = run_minim({"doctor", "--json", "--model", model});
  EXPECT_EQ(doctor.code, 0) << doctor.out;
  const Json report = doctor.lines()[0];
  EXPECT_EQ(report["model"]["ok"], true);
  EXPECT_NE(dump_json(report["model"]["notes"]).find("tokenizer.json"), std::string::npos);
  expect_refusal(run_minim({"run", "--model", model, "Hi"}), 1, {"tokenizer.json"});
}

TEST(Doctor, EveryGoldenCheckpointAndTheDemoCanRun) {
  for (const std::string name : {"m3-bf16", "m3-mxfp8", "m3-nvfp4", "m3-ct-nvfp4", "m3-native",
                                 "m3-text", "m31-nvfp4", "m31-release", "m3-vl", "demo"}) {
    SCOPED_TRACE(name);
    const Outcome doctor =
        run_minim({"doctor", "--json", "--model", name == "demo" ? kDemo : golden_model(name)});
    EXPECT_EQ(doctor.code, 0) << doctor.out;
    const Json report = doctor.lines()[0];
    EXPECT_EQ(report["model"]["problems"], Json::array());
    EXPECT_EQ(report["model"]["unknown_tensors"], Json::array());
    EXPECT_GT(report["model"]["weights_bytes"], 0);
    EXPECT_GT(report["disk"]["read_bytes_per_s"], 0);
    EXPECT_EQ(report["isa"]["available"][0], "scalar");
    for (const Json& tier : report["isa"]["available"]) {
      EXPECT_EQ(report["isa"]["self_test"][tier.get<std::string>()], "ok");
    }
  }
}

TEST(Doctor, CountsCacheBytesAsTheLayoutDoes) {
  // The demo: 3 sparse layers, 2 KV heads, NVFP4 K, V and index keys of 72 bytes a vector.
  const Json kv =
      run_minim({"doctor", "--json", "--model", kDemo}).lines()[0]["model"]["kv_bytes_per_token"];
  EXPECT_EQ(kv, (Json{{"k", 432}, {"v", 432}, {"index", 216}, {"total", 1080}}));
  const Json model = run_minim({"doctor", "--json", "--model", kDemo, "--kv-dtype", "bf16",
                                "--index-dtype", "fp8_e4m3", "--context", "1000"})
                         .lines()[0]["model"];
  EXPECT_EQ(model["kv_bytes_per_token"],
            (Json{{"k", 1536}, {"v", 1536}, {"index", 384}, {"total", 3456}}));
  EXPECT_EQ(model["cache_bytes"], 1024 * 3456);
  EXPECT_EQ(model["kv_dtype"], "bf16");
}

TEST(Doctor, TheTableSaysTheVerdict) {
  const Outcome good = run_minim({"doctor", "--model", kDemo});
  EXPECT_EQ(good.code, 0);
  EXPECT_NE(good.out.find("verdict     can run"), std::string::npos) << good.out;
  const TempFolder folder;
  copy_model(kDemo, folder);
  std::filesystem::remove(folder / "model.safetensors");
  const Outcome bad = run_minim({"doctor", "--model", folder.path()});
  EXPECT_EQ(bad.code, 1);
  EXPECT_NE(bad.out.find("PROBLEM"), std::string::npos);
  EXPECT_NE(bad.out.find("verdict     cannot run"), std::string::npos);
}

TEST(Limits, ATierThatTheHostLacksIsRefused) {
  for (const Kernels* tier : available_kernels()) {
    if (std::string(tier->name) == "avx512") GTEST_SKIP() << "this host has AVX-512";
  }
  std::vector<std::string> words = score(golden_model("m3-text"));
  words.insert(words.end(), {"--isa", "avx512"});
  expect_refusal(run_minim(words), 1, {"avx512"});
}

TEST(Limits, AContextBeyondTheModelIsRefused) {
  expect_refusal(run_minim({"run", "--model", kDemo, "--context", "4097", "Hi"}), 1,
                 {"4097", "4096", "max_position_embeddings"});
}

TEST(Limits, APromptBeyondTheContextIsRefusedWithBothCounts) {
  const Outcome outcome = run_minim({"run", "--model", kDemo, "--context", "10", "Hello"});
  expect_refusal(outcome, 1, {"the context 10", "prompt has"});
  std::string filler;
  for (int i = 0; i < 3000; ++i) filler += "The old road leads to the sea. ";
  expect_refusal(run_minim({"run", "--model", kDemo}, {.input = filler}), 1,
                 {"the context 4096", "no more positions"});
}

TEST(Limits, NoSpaceForTheCacheIsSaidBeforeAnythingIsLoaded) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need address space without bound";
#else
  // A million positions of m3-bf16 take some 5 GB; the process may have 2.
  std::vector<std::string> words = score(golden_model("m3-bf16"));
  words.insert(words.end(), {"--context", "1048576"});
  expect_refusal(run_minim(words, {.address_space = rlim_t{2} << 30}), 1,
                 {"no space for the cache", "1048576", "available", "--context"});
#endif
}

TEST(Limits, FastNumericsAreNotInThisVersion) {
  expect_refusal(run_minim({"run", "--model", kDemo, "--numerics", "fast", "Hi"}), 1,
                 {"fast", "not available in this version"});
}

}  // namespace
}  // namespace minim::testing
