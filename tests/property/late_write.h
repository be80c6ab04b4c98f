// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A tensor that one step of a random program makes and a later one writes to, as code does that
// fills in a buffer of its own: what runs between them, a backward with its replay among it, must
// leave it alone.
#ifndef REPRISE_TESTS_PROPERTY_LATE_WRITE_H_
#define REPRISE_TESTS_PROPERTY_LATE_WRITE_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <random>

namespace reprise::testing {

class LateWrite {
 public:
  // In a program of `steps` steps.
  LateWrite(std::mt19937_64& random, std::size_t steps);

  // To be called after each step, with its result [4, 6] and what an earlier call has made. Returns
  // the result to go on with.
  at::Tensor after(std::size_t step, const at::Tensor& x, at::Tensor& made) const;

  bool has_backward() const { return has_backward_; }
  void leave_out_backward() { has_backward_ = false; }

 private:
  void write(const at::Tensor& x, at::Tensor& made) const;

  bool has_backward_;  // right before the write
  std::size_t made_at_;
  std::size_t written_at_;
  std::size_t kind_;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_PROPERTY_LATE_WRITE_H_
