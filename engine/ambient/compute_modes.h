// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The modes that determine how operators compute, besides their arguments: kernels and precisions
// that LibTorch may use (MathModes, of the process), and, of a thread, the number of intra-op
// threads, which determines the order of sums, and the flushing of denormal numbers.
#ifndef REPRISE_ENGINE_AMBIENT_COMPUTE_MODES_H_
#define REPRISE_ENGINE_AMBIENT_COMPUTE_MODES_H_

#include <memory>

namespace reprise::engine_internal {

class MathModes;

// A small value. Thread-compatible.
class ComputeModes {
 public:
  ComputeModes() = default;
  // Returns the modes of the process and of the calling thread.
  static ComputeModes current();
  // Returns whether these are the current modes; with `elementwise`, only as they affect
  // elementwise operators, for which MathModes are irrelevant: some 40 instructions, 110 otherwise.
  bool is_current(bool elementwise) const;

  // Sets the modes that differ from `present`. The number of threads and the denormal mode are set
  // for the calling thread only, if LibTorch uses OpenMP.
  void apply_over(const ComputeModes& present) const;

  friend bool operator==(const ComputeModes& a, const ComputeModes& b);

 private:
  std::shared_ptr<const MathModes> math_;
  int num_threads_ = 0;
  bool flushes_denormals_ = false;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_AMBIENT_COMPUTE_MODES_H_
