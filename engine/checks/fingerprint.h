// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A short value that represents the bits of a tensor, to compare forward with a replay without
// retaining the tensor.
#ifndef REPRISE_ENGINE_CHECKS_FINGERPRINT_H_
#define REPRISE_ENGINE_CHECKS_FINGERPRINT_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise::engine_internal {

// Depends on every bit of every element and on the element's place in row-major order; not on
// strides, and, of shape and dtype, not on all: compare shape and dtype first. Sparse and nested
// tensors count as stored, component by component. Undefined and meta tensors have one constant
// fingerprint.
//
// CPU: XXH3, 64 bits. Elsewhere: ATen operators on the tensor's device and current stream; the
// result stays there, and nothing synchronises. There a single changed word of up to 32 bits is
// always detected, any other difference with a probability of 1 - 2^-31 or better. Memory beyond
// the tensor is bounded by about 32 MiB, whatever the strides.
//
// Call in no-grad mode. Draws no random numbers. A value; thread-compatible.
class Fingerprint {
 public:
  Fingerprint() = default;

  static Fingerprint of(const at::Tensor& tensor);

  // Computes it by operators, as for a tensor on an accelerator, on any device.
  static Fingerprint of_by_operators(const at::Tensor& tensor);

  // Returns the part of it that is of CPU tensors.
  std::uint64_t host() const { return host_; }

  // Synchronises if the tensors were not on the CPU, and reads one bool.
  static bool equal(const Fingerprint& a, const Fingerprint& b);

 private:
  static Fingerprint of_strided(const at::Tensor& tensor, bool by_operators);
  static Fingerprint of_any(const at::Tensor& tensor, bool by_operators);
  void append(const Fingerprint& next);

  std::uint64_t host_ = 0;
  at::Tensor device_;  // one int64, or undefined if all components were on the CPU
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_CHECKS_FINGERPRINT_H_
