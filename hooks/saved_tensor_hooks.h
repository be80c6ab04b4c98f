// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: saved_tensor_hooks.h
//
// Saved-tensor hooks for C++: replace a tensor that autograd saves for backward by another object
// (a copy on disk, a smaller type, anything), and restore the tensor from it. LibTorch has such
// hooks for Python only.
//
// Not for dropping and recomputing activations (`reprise::checkpoint()`), nor for moving them to
// the host (`SaveOnCpuGuard`).
//
// Example:
//
//   reprise::SavedTensorHooksGuard halves(
//       [](const at::Tensor& t) { return t.to(at::kHalf); },          // forward
//       [](const at::Tensor& half) { return half.to(at::kFloat); });  // backward
//   loss = model->forward(x).sum();
//
// Thread-safety: guards affect the calling thread, and the device threads of a backward that it
// calls. Threads that it starts do not inherit them. Callables may be called on such a device
// thread, and by several at once.
#ifndef REPRISE_HOOKS_SAVED_TENSOR_HOOKS_H_
#define REPRISE_HOOKS_SAVED_TENSOR_HOOKS_H_

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/export.h"
#include "reprise/hooks/hook_error.h"
#include "reprise/hooks/seam/packer.h"

namespace torch::autograd {
class SavedVariable;
}  // namespace torch::autograd

namespace reprise {

namespace hooks_internal {
class HookScope;
}  // namespace hooks_internal

// While alive, passes each tensor that autograd saves on this thread through `pack`, and through
// `unpack` when backward asks for it. Guards nest; only the innermost applies. Guards may be
// destroyed in any order.
//
// pack(tensor) receives a detached alias of the saved tensor (same data, never its graph), and
//   returns a value of any movable type, which autograd owns from then on. It must not modify the
//   tensor in place: that is a c10::Error at the operator. Called once per saved tensor; not for
//   undefined tensors or numbers that LibTorch has wrapped into tensors.
// unpack(packed) returns the tensor, at each request (several with retain_graph). Its autograd
//   history is ignored. A modification in place of the original since pack is not detected.
//
// Both run with grad mode and autocast off, and without the hooks themselves. A region around them
// does not see their operators: it neither asks its policy about them, nor compares them, nor skips
// their writes in a recomputation, which calls pack again.
//
// Throws: c10::Error if hooks are disabled on this thread. Exceptions of pack surface at the
// operator,
//   those of unpack at backward, with their type.
class [[nodiscard]] REPRISE_API SavedTensorHooksGuard {
 public:
  template <class Pack, class Unpack>
  requires std::invocable<Pack&, const at::Tensor&> SavedTensorHooksGuard(Pack pack, Unpack unpack)
      : SavedTensorHooksGuard(hooks_internal::make_packer(std::move(pack), std::move(unpack)),
                              Private{}) {}

  // From an object with member functions `pack` and `unpack`, or a std::shared_ptr to one.
  template <class Hooks>
  requires(!std::same_as<std::remove_cvref_t<Hooks>,
                         SavedTensorHooksGuard>) explicit SavedTensorHooksGuard(Hooks hooks)
      : SavedTensorHooksGuard(hooks_internal::make_packer(std::move(hooks)), Private{}) {}

  ~SavedTensorHooksGuard();
  SavedTensorHooksGuard(const SavedTensorHooksGuard&) = delete;
  SavedTensorHooksGuard& operator=(const SavedTensorHooksGuard&) = delete;

 private:
  struct Private {};
  [[nodiscard]] SavedTensorHooksGuard(std::shared_ptr<hooks_internal::TensorPacker> packer,
                                      Private);

  std::unique_ptr<hooks_internal::HookScope> scope_;
};

// Registers hooks for one tensor that a node has already saved. Packs immediately.
//
// Throws: LibTorch's c10::Error if the slot is empty or freed, or has hooks.
template <class Pack, class Unpack>
void register_saved_tensor_hooks(torch::autograd::SavedVariable& saved, Pack pack, Unpack unpack) {
  hooks_internal::register_packer(saved,
                                  hooks_internal::make_packer(std::move(pack), std::move(unpack)));
}

// While alive, saved-tensor hooks cannot be set on this thread: constructing a guard, or entering a
// region, throws c10::Error with `message`. Guards nest; the innermost message is used.
//
// Throws: the same c10::Error if hooks are active.
class [[nodiscard]] REPRISE_API DisableSavedTensorHooksGuard {
 public:
  [[nodiscard]] explicit DisableSavedTensorHooksGuard(const std::string& message);
  ~DisableSavedTensorHooksGuard();
  DisableSavedTensorHooksGuard(const DisableSavedTensorHooksGuard&) = delete;
  DisableSavedTensorHooksGuard& operator=(const DisableSavedTensorHooksGuard&) = delete;

 private:
  std::optional<std::string> previous_message_;
};

}  // namespace reprise

#endif  // REPRISE_HOOKS_SAVED_TENSOR_HOOKS_H_
