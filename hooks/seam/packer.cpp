// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/seam/packer.h"

#include <torch/csrc/autograd/saved_variable.h>

#include <exception>
#include <utility>

#include "reprise/hooks/hook_error.h"
#include "reprise/hooks/seam/hook_stack.h"
#include "reprise/hooks/seam/unseen_scope.h"
#include "reprise/hooks/seam/variable_hooks.h"

namespace reprise::hooks_internal {

PackedTensor::~PackedTensor() = default;
TensorPacker::~TensorPacker() = default;

namespace {

class PackerHooks final : public ListedHooks {
 public:
  explicit PackerHooks(std::shared_ptr<TensorPacker> packer) : packer_(std::move(packer)) {}
  ~PackerHooks() override {
    const UnseenScope unseen;
    packed_.reset();
  }
  PackerHooks(const PackerHooks&) = delete;
  PackerHooks& operator=(const PackerHooks&) = delete;

  void call_pack_hook(const at::Tensor& tensor) override {
    observe_pack(tensor);
    const UnseenScope unseen;
    // A separate alias: a hook that stored the live tensor of a node's output would make a cycle.
    packed_ = packer_->pack(detached_alias(tensor));
    packer_.reset();
  }

  at::Tensor call_unpack_hook() override {
    at::Tensor tensor = unpack();
    observe_unpack(tensor);
    return tensor;
  }

 private:
  at::Tensor unpack() {
    const UnseenScope unseen;
    at::Tensor tensor;
    try {
      tensor = packed_->unpack();
    } catch (const std::exception&) {
      throw;
    } catch (...) {
      throw SavedTensorHookError(
          "[hooks.unpack] a saved-tensor unpack hook threw something that is no std::exception; "
          "such an exception cannot leave a backward, derive it from std::exception");
    }
    if (!tensor.defined()) {
      throw SavedTensorHookError(
          "[hooks.unpack] Output of saved tensor unpack_hook expected to be a Tensor but it is "
          "undefined; return a tensor with the values that were packed");
    }
    return tensor;
  }

  std::shared_ptr<TensorPacker> packer_;
  std::unique_ptr<PackedTensor> packed_;
};

class PackerProvider final : public HookProvider {
 public:
  explicit PackerProvider(std::shared_ptr<TensorPacker> packer) : packer_(std::move(packer)) {}
  std::unique_ptr<SavedVariableHooks> make_hooks() override {
    return std::make_unique<PackerHooks>(packer_);
  }

 private:
  std::shared_ptr<TensorPacker> packer_;
};

}  // namespace

void register_packer(torch::autograd::SavedVariable& saved, std::shared_ptr<TensorPacker> packer) {
  saved.register_hooks(std::make_unique<PackerHooks>(std::move(packer)));
}

std::shared_ptr<HookProvider> make_packer_provider(std::shared_ptr<TensorPacker> packer) {
  return std::make_shared<PackerProvider>(std::move(packer));
}

}  // namespace reprise::hooks_internal
