// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A small model of residual connections around regions with dropout. All ranks hold it alike.
#ifndef REPRISE_TESTS_DISTRIBUTED_RESIDUAL_MODEL_H_
#define REPRISE_TESTS_DISTRIBUTED_RESIDUAL_MODEL_H_

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace reprise::testing {

// How a model runs one of its regions.
using Region = std::function<at::Tensor(const std::function<at::Tensor(const at::Tensor&)>&,
                                        const at::Tensor&)>;

inline at::Tensor plainly(const std::function<at::Tensor(const at::Tensor&)>& code,
                          const at::Tensor& h) {
  return code(h);
}

struct ResidualModel {
  static constexpr std::int64_t kWidth = 16;

  explicit ResidualModel(at::ScalarType dtype) {
    for (int i = 0; i < 3; ++i) {
      weights.push_back(at::randn({kWidth, kWidth}, dtype).requires_grad_());
    }
  }

  // x: [*, kWidth]. The loss.
  at::Tensor forward(const at::Tensor& x, const Region& region) const {
    at::Tensor h = x.sin();
    for (const at::Tensor& weight : weights) {
      const auto code = [weight](const at::Tensor& t) {
        return at::dropout(t.matmul(weight).tanh(), 0.3, true);
      };
      h = h + region(code, h);
    }
    return h.square().sum();
  }

  // The gradients of the weights and of x, from a fixed seed.
  std::vector<at::Tensor> step(const at::Tensor& x, const Region& region) const {
    torch::manual_seed(7);
    std::vector<at::Tensor> wanted = weights;
    wanted.push_back(x);
    return torch::autograd::grad({forward(x, region)}, wanted);
  }

  std::vector<at::Tensor> weights;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_DISTRIBUTED_RESIDUAL_MODEL_H_
