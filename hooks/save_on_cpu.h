// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: save_on_cpu.h
//
// Keeps what autograd saves in host memory between forward and backward. The plain form: each copy
// is ordered on the current stream and waited for by the host, nothing overlaps with computation.
//
// Not for CPU tensors (they are where they belong already, and are left there), and no substitute
// for `checkpoint()` where recomputing is cheaper than the bus.
//
// Example:
//
//   {
//     reprise::SaveOnCpuGuard offload({.pin_memory = true});
//     loss = model->forward(x).sum();
//   }
//   loss.backward();
//
// Thread-safety: as SavedTensorHooksGuard.
#ifndef REPRISE_HOOKS_SAVE_ON_CPU_H_
#define REPRISE_HOOKS_SAVE_ON_CPU_H_

#include <memory>

#include "reprise/hooks/export.h"

namespace reprise {

namespace hooks_internal {
class HookScope;
}  // namespace hooks_internal

struct SaveOnCpuOptions {
  // Page-locks the host copies, so that copies run at the bus's speed. Needs an accelerator.
  bool pin_memory = false;
};

// While alive, tensors that autograd saves on this thread move to the host, and return to their
// device, in the same shape, strides, dtype and layout, when backward asks. For dense tensors,
// views and broadcast tensors (a dimension of stride 0 is copied once), and sparse COO tensors.
// Tensors that stay anyway stay where they are: parameters (leaves that require grad) and CPU
// tensors; changing one of those in place before backward is a c10::Error at backward, as without
// the guard. Synchronises the host with the current stream once a tensor, in forward and in
// backward. After torch.autograd.graph.save_on_cpu.
class [[nodiscard]] REPRISE_API SaveOnCpuGuard {
 public:
  explicit SaveOnCpuGuard(SaveOnCpuOptions options = {});
  ~SaveOnCpuGuard();
  SaveOnCpuGuard(const SaveOnCpuGuard&) = delete;
  SaveOnCpuGuard& operator=(const SaveOnCpuGuard&) = delete;

 private:
  std::unique_ptr<hooks_internal::HookScope> scope_;
};

}  // namespace reprise

#endif  // REPRISE_HOOKS_SAVE_ON_CPU_H_
