// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/save_on_cpu.h"

#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <optional>
#include <utility>

#include "reprise/hooks/internal/hook_stack.h"
#include "reprise/hooks/internal/host_copy.h"

namespace reprise {
namespace {

using hooks_internal::detached_alias;
using hooks_internal::HookProvider;
using hooks_internal::HostCopy;
using hooks_internal::SavedVariableHooks;

class HostHooks final : public SavedVariableHooks {
 public:
  explicit HostHooks(bool pin_memory) : pin_memory_(pin_memory) {}

  void call_pack_hook(const at::Tensor& tensor) override {
    const bool is_parameter = tensor.is_leaf() && tensor.requires_grad();
    if (tensor.is_cpu() || is_parameter) {
      in_place_ = detached_alias(tensor);
      version_ = in_place_._version();
    } else {
      copy_.emplace(detached_alias(tensor), pin_memory_);
    }
  }

  at::Tensor call_unpack_hook() override {
    if (copy_) {
      const at::NoGradGuard no_grad;
      return copy_->restore();
    }
    TORCH_CHECK(in_place_._version() == version_,
                "[SaveOnCpuGuard] a tensor needed for gradient computation has been modified by an "
                "inplace operation: ",
                in_place_.toString(), " ", in_place_.sizes(), " on ", in_place_.device(),
                " is at version ", in_place_._version(), "; expected version ", version_,
                " instead. It was left where it is; clone it before changing it");
    return in_place_;
  }

 private:
  bool pin_memory_;
  std::optional<HostCopy> copy_;
  at::Tensor in_place_;
  int64_t version_ = 0;
};

class HostProvider final : public HookProvider {
 public:
  explicit HostProvider(SaveOnCpuOptions options) : options_(options) {}
  std::unique_ptr<SavedVariableHooks> make_hooks() override {
    return std::make_unique<HostHooks>(options_.pin_memory);
  }

 private:
  SaveOnCpuOptions options_;
};

}  // namespace

SaveOnCpuGuard::SaveOnCpuGuard(SaveOnCpuOptions options)
    : scope_(std::make_unique<hooks_internal::HookScope>(std::make_shared<HostProvider>(options))) {
}

SaveOnCpuGuard::~SaveOnCpuGuard() = default;

}  // namespace reprise
