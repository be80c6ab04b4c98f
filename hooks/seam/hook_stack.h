// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The stack of saved-tensor hooks of a thread. It lives in c10::ThreadLocalDebugInfo, because that
// is part of at::ThreadLocalState: so it is seen by the threads that run a backward for the caller,
// and by no other thread.
#ifndef REPRISE_HOOKS_SEAM_HOOK_STACK_H_
#define REPRISE_HOOKS_SEAM_HOOK_STACK_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprise/base/export.h"

namespace reprise::hooks_internal {

using torch::autograd::SavedVariableHooks;

// Makes the hooks for each tensor that autograd saves while this provider is innermost.
class REPRISE_API HookProvider {
 public:
  HookProvider() = default;
  HookProvider(const HookProvider&) = delete;
  HookProvider& operator=(const HookProvider&) = delete;
  virtual ~HookProvider();

  // Called once a saved tensor, maybe by several threads of one backward at once.
  virtual std::unique_ptr<SavedVariableHooks> make_hooks() = 0;

  // True for those of a region: what they are given is dropped and computed again.
  virtual bool recomputes() const { return false; }

  // Called when a backward inside the scope, or inside a scope further in, is about to add to the
  // `.grad` of these leaves. Passes it on to the next provider further out unless it returns true.
  virtual bool on_accumulation(const std::vector<at::Tensor>& leaves);
};

class HookEntry;

// While alive, `provider` is innermost on this thread. A scope that is left in another order than
// the reverse of its making, or on another thread, ends at once; its provider is let go of when the
// scopes made after it on that thread have ended.
// Throws c10::Error with LibTorch's message if saved-tensor hooks are disabled on this thread.
class REPRISE_API HookScope {
 public:
  explicit HookScope(std::shared_ptr<HookProvider> provider);
  ~HookScope();
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;

 private:
  std::shared_ptr<HookEntry> entry_;
};

// The innermost open provider of this thread, or null; null for what is unseen by it.
REPRISE_API HookProvider* innermost_provider() noexcept;

// True if some open provider of this thread has taken the leaves, see on_accumulation().
bool offer_accumulation(const std::vector<at::Tensor>& leaves);

// While alive, hooks are enabled on this thread: a replay needs them, wherever backward is called.
class REPRISE_API HooksEnabledGuard {
 public:
  HooksEnabledGuard();
  ~HooksEnabledGuard();
  HooksEnabledGuard(const HooksEnabledGuard&) = delete;
  HooksEnabledGuard& operator=(const HooksEnabledGuard&) = delete;

 private:
  std::optional<std::string> disabled_message_;
};

// Throws the c10::Error that LibTorch throws if hooks are disabled on this thread.
REPRISE_API void check_hooks_enabled();

// A tensor of its own over the same data without graph. It shares the version counter, so a change
// in place through either is seen by both. Does not pass the dispatcher.
REPRISE_API at::Tensor detached_alias(const at::Tensor& tensor);

// Are called, on its thread, with each tensor that is given to a user's pack hook or to a store of
// a StoreGuard, and with each that a user's unpack hook has returned. For the engine, of which this
// component does not know; set once.
using TensorObserver = void (*)(const at::Tensor& tensor);
REPRISE_API void set_pack_observer(TensorObserver observer) noexcept;
REPRISE_API void set_unpack_observer(TensorObserver observer) noexcept;
void observe_pack(const at::Tensor& tensor);
void observe_unpack(const at::Tensor& tensor);

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_SEAM_HOOK_STACK_H_
