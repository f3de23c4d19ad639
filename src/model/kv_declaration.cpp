// Cache formats are declared in up to four places and three spellings; see model/config.cpp for the
// rest of the configuration.
#include "model/kv_declaration.h"

#include <string>

#include "base/json_fields.h"

namespace minim {
namespace {

std::optional<KvFormat> kv_format(JsonFields& fields, const char* key) {
  if (!fields.has(key)) return std::nullopt;
  std::string name = fields.text_or(key, "");
  for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (name == "fp8" || name == "fp8_e4m3") return KvFormat::kFp8E4m3;
  if (name == "nvfp4") return KvFormat::kNvfp4;
  if (name == "bf16" || name == "bfloat16" || name == "none") return KvFormat::kBf16;
  fields.wanted(key, "null, \"FP8\" or \"NVFP4\"", Code::kUnsupported);
  return std::nullopt;
}

// compressed-tensors writes an object of quantisation arguments here, ModelOpt an object for FP8
// and a bare name otherwise.
std::optional<KvFormat> kv_scheme(JsonFields& fields) {
  const char* key = "kv_cache_scheme";
  if (!fields.has(key) || !fields.find(key)->is_object()) return kv_format(fields, key);
  JsonFields scheme = fields.object_or_empty(key);
  scheme.only("type", "float");
  const int bits = scheme.integer("num_bits", 1, 64);
  if (bits != 8 && bits != 4) scheme.wanted("num_bits", "8 or 4", Code::kUnsupported);
  return bits == 8 ? KvFormat::kFp8E4m3 : KvFormat::kNvfp4;
}

}  // namespace

void read_kv(JsonFields& quantization, KvDeclaration& kv) {
  const auto merge = [&](std::optional<KvFormat>& known, std::optional<KvFormat> found,
                         const char* key) {
    if (known && found && *known != *found) {
      quantization.wanted(key, "what the other cache fields of the checkpoint declare");
    }
    if (found) known = found;
  };
  merge(kv.main, kv_format(quantization, "kv_cache_quant_algo"), "kv_cache_quant_algo");
  merge(kv.main, kv_scheme(quantization), "kv_cache_scheme");
  merge(kv.index, kv_format(quantization, "index_k_quant_type"), "index_k_quant_type");
}

KvFormats stored_formats(const KvDeclaration& kv) {
  // The M3.1 release says "FP8" for the type of its arithmetic; index keys in NVFP4 are the mark of
  // a release whose K and V are stored in NVFP4 too.
  if (kv.index == KvFormat::kNvfp4) return {KvFormat::kNvfp4, KvFormat::kNvfp4};
  const KvFormat main = kv.main.value_or(KvFormat::kBf16);
  return {main, kv.index.value_or(main)};
}

}  // namespace minim
