// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// LibTorch's flags that determine an operator's kernel and precision: of scaled dot product
// attention, cuDNN, oneDNN, NNPACK, BLAS and LAPACK, reduced precision, and of filling
// uninitialised memory. They belong to the process.
#ifndef REPRISE_ENGINE_AMBIENT_MATH_MODES_H_
#define REPRISE_ENGINE_AMBIENT_MATH_MODES_H_

#include <ATen/Context.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace reprise::engine_internal {

class MathModes {
 public:
  using Ptr = std::shared_ptr<const MathModes>;

  // Returns the present flags: on a thread the same object until one of them changes.
  static const Ptr& current();
  // Returns whether the flags are unchanged since this was made. Costs some 60 instructions, cheap
  // enough per operator. May return false if only unrelated state of at::Context has changed.
  bool is_current() const;

  // Sets the flags that differ from `present`.
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
  std::vector<std::uint64_t> words_;  // of the memory that holds the flags
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_AMBIENT_MATH_MODES_H_
