// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/property/late_write.h"

#include <torch/torch.h>

#include "tests/property/random_program.h"

namespace reprise::testing {
namespace {

constexpr std::size_t kKinds = 6;
constexpr std::size_t kWithGraph = 0;

}  // namespace

LateWrite::LateWrite(std::mt19937_64& random, std::size_t steps)
    : has_backward_(pick(random, 2) == 0),
      made_at_(pick(random, steps)),
      written_at_(made_at_ + 1 + pick(random, 3)),
      kind_(pick(random, kKinds)) {}

at::Tensor LateWrite::after(std::size_t step, const at::Tensor& x, at::Tensor& made) const {
  if (step == made_at_) {
    made = kind_ == kWithGraph ? x.cos() : x.detach().cos();
  }
  if (step != written_at_ || !made.defined()) {
    return x;
  }
  at::Tensor factor = at::ones({});
  if (has_backward_) {
    const at::Tensor copy = x.detach().requires_grad_();
    factor = torch::autograd::grad({(copy.sin() * copy).sum()}, {copy})[0];
  }
  write(x, made);
  return x * factor + made;
}

void LateWrite::write(const at::Tensor& x, at::Tensor& made) const {
  const at::Tensor other = x.detach();
  switch (kind_) {
    case kWithGraph:
      made.add_(x);
      return;
    case 1:
      made.mul_(other);
      return;
    case 2:
      made.narrow(0, 0, 2).add_(other.narrow(0, 2, 2));
      return;
    case 3:
      made.add_(other);
      made.relu_();
      return;
    case 4:
      made.t_();
      made.mul_(2);
      made.t_();
      return;
    default:
      at::add_out(made, other, made);
  }
}

}  // namespace reprise::testing
