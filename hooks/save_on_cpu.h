// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: save_on_cpu.h
//
// Stores the tensors that autograd saves in host memory between forward and backward, all of them
// or the part beyond a budget: the short form of a StoreGuard with a HostStore.
//
// Not for CPU tensors, which stay where they are, and no substitute for `checkpoint()` if
// recomputation is cheaper than the bus. For copies that overlap with the computation of forward,
// use `StoreGuard` with `stores::host()`.
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

  // Device-memory budget in bytes. When exceeded, the tensors saved first are offloaded first.
  std::int64_t max_device_bytes = 0;
};

// While alive, moves tensors that autograd saves on this thread to the host, and back to their
// device, in the same shape, strides, dtype and layout, when backward asks; the tensor that it will
// ask for next is prefetched. Views, broadcast and sparse tensors are stored as by HostStore.
// Parameters (leaves that require grad, and views of them) and CPU tensors stay where they are;
// modifying one of them in place before backward, or one that the budget has left on the device,
// is a c10::Error at backward, as without the guard. After torch.autograd.graph.save_on_cpu.
//
// Stream: the current stream waits for each copy to the host; the host waits for none.
class [[nodiscard]] REPRISE_API SaveOnCpuGuard {
 public:
  [[nodiscard]] explicit SaveOnCpuGuard(SaveOnCpuOptions options = {});
  ~SaveOnCpuGuard();
  SaveOnCpuGuard(const SaveOnCpuGuard&) = delete;
  SaveOnCpuGuard& operator=(const SaveOnCpuGuard&) = delete;

 private:
  StoreGuard guard_;
};

}  // namespace reprise

#endif  // REPRISE_HOOKS_SAVE_ON_CPU_H_
