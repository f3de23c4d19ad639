// What the configuration files of a checkpoint say about the stored cache.
#pragma once

#include <optional>

#include "device/kv_layout.h"

namespace minim {

class JsonFields;

struct KvDeclaration {
  std::optional<KvFormat> main, index;
};

// Adds what one object (quantization_config, or "quantization" of hf_quant_config.json) declares;
// an unknown format, or another than is known already, becomes the fields' failure.
void read_kv(JsonFields& quantization, KvDeclaration& kv);

// The formats to store: bf16 where nothing is declared, index keys like K and V where nothing else
// is said.
KvFormats stored_formats(const KvDeclaration& kv);

}  // namespace minim
