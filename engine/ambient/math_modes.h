// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The flags of LibTorch's that decide which kernel an operator runs, and at which precision: those
// of scaled dot product attention, cuDNN, oneDNN, NNPACK, BLAS and LAPACK, reduced precision, and
// of filling memory that nobody has set. They belong to the process.
#ifndef REPRISE_ENGINE_AMBIENT_MATH_MODES_H_
#define REPRISE_ENGINE_AMBIENT_MATH_MODES_H_

#include <ATen/Context.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "reprise/base/export.h"

namespace reprise::engine_internal {

class REPRISE_API MathModes {
 public:
  using Ptr = std::shared_ptr<const MathModes>;

  // As they are now: on a thread the same object until one of them changes.
  static const Ptr& current();
  // Whether they are as they were when this was made. Costs some 60 instructions, so that it may be
  // asked for an operator. May be false when nothing but state of at::Context's of no concern here
  // has changed.
  bool is_current() const;

  // Sets what differs from `present`.
  void apply_over(const MathModes& present) const;

  friend bool operator==(const MathModes& a, const MathModes& b) { return a.values_ == b.values_; }

 private:
  static MathModes read();

  struct Values {
    std::uint32_t flags = 0;
    std::array<at::SDPBackend, at::num_sdp_backends> attention_order{};
    std::uint8_t half_reduction = 0;
    std::uint8_t bfloat16_reduction = 0;
    at::LinalgBackend linalg{};
    at::BlasBackend blas{};
    at::Float32MatmulPrecision matmul_precision{};
    bool allows_tf32_in_cudnn = false;
    std::vector<std::uint8_t> precisions;  // of float32, by LibTorch's table, in its order

    friend bool operator==(const Values&, const Values&) = default;
  };

  Values values_;
  std::vector<std::uint64_t> words_;  // of the memory in which the flags lay
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_AMBIENT_MATH_MODES_H_
