// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Saved-tensor hooks that count their calls.
#ifndef REPRISE_TESTS_HOOKS_COUNTING_HOOKS_H_
#define REPRISE_TESTS_HOOKS_COUNTING_HOOKS_H_

#include <torch/torch.h>

#include <atomic>
#include <memory>

#include "reprise/hooks/saved_tensor_hooks.h"

namespace reprise::testing {

struct CountingHooks {
  at::Tensor pack(const at::Tensor& tensor) {
    ++packs;
    return tensor;
  }
  at::Tensor unpack(const at::Tensor& packed) {
    ++unpacks;
    return packed;
  }
  std::atomic<int> packs{0};
  std::atomic<int> unpacks{0};
};

// exp of a leaf: one tensor is saved.
inline at::Tensor save_one() { return at::ones({3}).requires_grad_().exp(); }

// True if `hooks` are the ones that a tensor saved now on this thread goes through.
inline bool are_active(const std::shared_ptr<CountingHooks>& hooks) {
  const int before = hooks->packs;
  save_one();
  return hooks->packs == before + 1;
}

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_HOOKS_COUNTING_HOOKS_H_
