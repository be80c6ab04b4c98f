// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/function/replay_hooks.h"

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/variable.h>

#include "reprise/engine/errors.h"
#include "reprise/engine/function/early_stop.h"
#include "reprise/engine/function/function_replay.h"
#include "reprise/engine/operators/interception.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/hooks/seam/hook_stack.h"

namespace reprise::engine_internal {
namespace {

using torch::autograd::SavedVariableHooks;

class ReplayHooks final : public SavedVariableHooks {
 public:
  explicit ReplayHooks(FunctionReplay& replay) : replay_(replay) {}
  void call_pack_hook(const at::Tensor& tensor) override {
    if (report_save(tensor)) {
      throw_early_stop(&replay_);  // no local object is left to destroy: each costs a microsecond
    }
  }
  at::Tensor call_unpack_hook() override {
    at::Tensor tensor(original_.lock());
    if (!alias_.defined()) {
      if (!tensor.defined()) {
        throw DeterminismError(
            "[checkpoint] a backward in a recomputation reads a saved tensor of a graph that "
            "forward's code has dropped without a backward. The region's code must run the same "
            "backwards each time");
      }
      return hooks_internal::detached_alias(tensor);
    }
    const bool is_as_it_was = tensor.defined() && may_be_returned(tensor);
    return is_as_it_was && version_of(tensor) == version_of(alias_) ? tensor : alias_;
  }

 private:
  // Returns whether the replay has all that it needs.
  bool report_save(const at::Tensor& tensor) {
    const InterceptionScope unseen(nullptr);  // sparse tensors are copied with operators
    alias_ = hooks_internal::detached_alias(tensor);
    original_ = WeakTensor(tensor.getIntrusivePtr());
    const FunctionReplay::Saved saved = replay_.on_save(tensor, alias_);
    if (!saved.may_be_read) {
      alias_.reset();  // retained, it would take the memory of a graph that forward had dropped
    }
    return saved.is_last;
  }

  using TensorPtr = c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  FunctionReplay& replay_;
  at::Tensor alias_;
  // Not owned: the tensor may get a graph later, and this is a part of it.
  WeakTensor original_{TensorPtr()};
};

}  // namespace

bool may_be_returned(const at::Tensor& tensor) {
  return !tensor.requires_grad() &&
         torch::autograd::impl::get_view_autograd_meta(tensor) == nullptr;
}

std::unique_ptr<SavedVariableHooks> make_replay_hooks(FunctionReplay& replay) {
  return std::make_unique<ReplayHooks>(replay);
}

}  // namespace reprise::engine_internal
