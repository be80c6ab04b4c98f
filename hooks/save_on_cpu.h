// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: save_on_cpu.h
//
// Keeps what autograd saves in host memory between forward and backward, all of it or what goes
// beyond a budget: the short form of a StoreGuard with a HostStore.
//
// Not for CPU tensors (they are where they belong already, and are left there), and no substitute
// for `checkpoint()` where recomputing is cheaper than the bus. For copies beside the computation
// of forward, use `StoreGuard` with `stores::host()`.
//
// Example:
//
//   {
//     reprise::SaveOnCpuGuard offload({.pin_memory = true, .max_device_bytes = 2LL << 30});
//     loss = model->forward(x).sum();
//   }
//   loss.backward();
//
// Thread-safety: as SavedTensorHooksGuard.
#ifndef REPRISE_HOOKS_SAVE_ON_CPU_H_
#define REPRISE_HOOKS_SAVE_ON_CPU_H_

#include <cstddef>

#include "reprise/base/export.h"
#include "reprise/hooks/store_guard.h"

namespace reprise {

struct SaveOnCpuOptions {
  // Page-locks the host copies, so that copies run at the bus's speed. Needs an accelerator.
  bool pin_memory = false;

  // So many bytes stay on the device; beyond it, those saved first go first.
  std::size_t max_device_bytes = 0;
};

// While alive, tensors that autograd saves on this thread move to the host, and return to their
// device, in the same shape, strides, dtype and layout, when backward asks; the one that it will
// ask for next comes along. Views, broadcast and sparse tensors are kept as HostStore says. Tensors
// that stay anyway stay where they are: parameters (leaves that require grad, and views of them)
// and CPU tensors; changing one of those in place before backward is a c10::Error at backward, as
// without the guard, as is changing one that the budget has kept on the device. The current stream
// waits for each copy to the host, the host for none. After torch.autograd.graph.save_on_cpu.
class [[nodiscard]] REPRISE_API SaveOnCpuGuard {
 public:
  explicit SaveOnCpuGuard(SaveOnCpuOptions options = {});
  ~SaveOnCpuGuard();
  SaveOnCpuGuard(const SaveOnCpuGuard&) = delete;
  SaveOnCpuGuard& operator=(const SaveOnCpuGuard&) = delete;

 private:
  StoreGuard guard_;
};

}  // namespace reprise

#endif  // REPRISE_HOOKS_SAVE_ON_CPU_H_
