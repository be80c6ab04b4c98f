// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What decides how operators compute, beside their arguments: which kernels and precisions LibTorch
// may use (MathModes, of the process), and, of a thread, how many threads an operator is spread
// over, which decides in which order it adds, and whether denormal numbers count as zero.
#ifndef REPRISE_ENGINE_AMBIENT_COMPUTE_MODES_H_
#define REPRISE_ENGINE_AMBIENT_COMPUTE_MODES_H_

#include <memory>

namespace reprise::engine_internal {

class MathModes;

// A small value. Thread-compatible.
class ComputeModes {
 public:
  ComputeModes() = default;
  // Of the process, and of the calling thread.
  static ComputeModes current();
  // Whether that gives the same now; with `elementwise`, as far as it concerns elementwise
  // operators, for which MathModes decide nothing: some 40 instructions, and 110 otherwise.
  bool is_current(bool elementwise) const;

  // Sets what differs from `present`. Numbers of threads and denormals are those of the calling
  // thread, and other threads keep theirs, if LibTorch computes with OpenMP.
  void apply_over(const ComputeModes& present) const;

  friend bool operator==(const ComputeModes& a, const ComputeModes& b);

 private:
  std::shared_ptr<const MathModes> math_;
  int num_threads_ = 0;
  bool flushes_denormals_ = false;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_AMBIENT_COMPUTE_MODES_H_
