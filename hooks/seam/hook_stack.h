// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The stack of saved-tensor hooks of a thread. It is in c10::ThreadLocalDebugInfo, because that is
// part of at::ThreadLocalState: it is thus propagated to the threads that run a backward for the
// caller, and to no other thread.
#ifndef REPRISE_HOOKS_SEAM_HOOK_STACK_H_
#define REPRISE_HOOKS_SEAM_HOOK_STACK_H_

#include <ATen/SavedTensorHooks.h>
#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <functional>
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

  // Called once per saved tensor, possibly by several threads of one backward at once.
  virtual std::unique_ptr<SavedVariableHooks> make_hooks() = 0;

  // Returns true for a region: its saved tensors are dropped and recomputed.
  virtual bool recomputes() const { return false; }
  // Returns whether a user's hooks, these or others around the region that these belong to, may
  // copy tensors when autograd saves them.
  virtual bool may_copy() const { return !recomputes(); }

  // Called when a backward inside the scope, or inside a nested scope, is about to add to the
  // `.grad` of these leaves. If it returns false, the next provider further out is called.
  virtual bool on_accumulation(const std::vector<at::Tensor>& leaves);
};

class HookEntry;

// While alive, `provider` is innermost on this thread. A scope that is left out of order, or on
// another thread, ends immediately; its provider is released when the scopes made after it on that
// thread have ended. Throws c10::Error with LibTorch's message if saved-tensor hooks are disabled
// on this thread.
class REPRISE_API HookScope {
 public:
  explicit HookScope(std::shared_ptr<HookProvider> provider);
  ~HookScope();
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;

 private:
  std::shared_ptr<HookEntry> entry_;
};

// Returns the innermost open provider of this thread; null if there is none, if the present work is
// invisible to it, or if hooks of LibTorch's own stack (Python's saved_tensors_hooks) are further
// in.
REPRISE_API HookProvider* innermost_provider() noexcept;
// foreign: LibTorch's own stack of this thread.
HookProvider* innermost_provider(const at::impl::SavedTensorDefaultHooksTLS& foreign) noexcept;

// Returns whether there is an open provider to which the present work is visible, hooks of
// LibTorch's own stack further in or not.
REPRISE_API bool has_open_provider() noexcept;

// Returns whether this thread has two providers or more, open ones and others.
REPRISE_API bool has_several_providers() noexcept;

// Returns the innermost open provider, to which the present work is visible, that `is_wanted`; null
// if there is none.
REPRISE_API HookProvider* find_open_provider(
    const std::function<bool(HookProvider& provider)>& is_wanted);

// Returns whether an open provider of this thread has accepted the leaves, see on_accumulation().
bool offer_accumulation(const std::vector<at::Tensor>& leaves);

// Enables hooks on this thread while alive: a replay needs them, wherever backward is called.
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

// Returns a separate tensor object over the same data, without graph. It shares the version
// counter, so an in-place change through either is visible to both. Bypasses the dispatcher.
REPRISE_API at::Tensor detached_alias(const at::Tensor& tensor);
// The same with another version counter.
REPRISE_API at::Tensor detached_alias(const at::Tensor& tensor, const c10::VariableVersion& counter,
                                      bool may_change_metadata);

// Set functions to be called with each tensor that is passed to a user's pack hook or to a store of
// a StoreGuard, and with each that a user's unpack hook has returned. For the engine, which this
// component does not know; set once.
using TensorObserver = void (*)(const at::Tensor& tensor);
REPRISE_API void set_pack_observer(TensorObserver observer) noexcept;
REPRISE_API void set_unpack_observer(TensorObserver observer) noexcept;
void observe_pack(const at::Tensor& tensor);
void observe_unpack(const at::Tensor& tensor);

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_SEAM_HOOK_STACK_H_
