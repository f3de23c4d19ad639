// Weights as the CPU keeps them: matrices repacked once into panels (kernels/panel.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "device/weights.h"
#include "kernels/kernels.h"

namespace minim::cpu {

// [n_out, n_in] in ceil(n_out / 16) panels; the rows beyond n_out are zeros.
struct PackedMatrix {
  Panels panels;
  size_t n_out = 0;

  size_t bytes() const { return panels.n_panels * panel_bytes(panels.format, panels.n_in); }
};

// Rows of several matrices, one below the other; part i makes output columns [column, column +
// n_out).
struct PackedLinear {
  struct Part {
    PackedMatrix matrix;
    size_t column = 0;
  };
  std::vector<Part> parts;
  size_t n_in = 0, n_out = 0;
};

struct PackedMlp {
  PackedMatrix gate, up, down;

  size_t bytes() const { return gate.bytes() + up.bytes() + down.bytes(); }
};

// Repacks a matrix into the arena, in parallel. kF32 views become kF32 panels; `as_f32` widens bf16
// ones too. Adds the bytes taken to `total_bytes`.
Result<PackedMatrix> pack(const MatrixView& view, bool as_f32, const Kernels& kernels,
                          ThreadPool& pool, Arena& arena, size_t& total_bytes);

}  // namespace minim::cpu
