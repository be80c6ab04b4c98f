// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The callables of saved_tensor_hooks.h behind one interface.
#ifndef REPRISE_HOOKS_SEAM_PACKER_H_
#define REPRISE_HOOKS_SEAM_PACKER_H_

#include <ATen/core/Tensor.h>

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

#include "reprise/base/export.h"

namespace torch::autograd {
class SavedVariable;
}  // namespace torch::autograd

namespace reprise::hooks_internal {

// What a pack hook made, with the way back.
class REPRISE_API PackedTensor {
 public:
  PackedTensor() = default;
  PackedTensor(const PackedTensor&) = delete;
  PackedTensor& operator=(const PackedTensor&) = delete;
  virtual ~PackedTensor();
  virtual at::Tensor unpack() = 0;
};

class REPRISE_API TensorPacker {
 public:
  TensorPacker() = default;
  TensorPacker(const TensorPacker&) = delete;
  TensorPacker& operator=(const TensorPacker&) = delete;
  virtual ~TensorPacker();
  virtual std::unique_ptr<PackedTensor> pack(const at::Tensor& tensor) = 0;
};

template <class Pack, class Unpack>
struct CallablePair {
  Pack pack;
  Unpack unpack;
};

template <class Hooks>
using PackedBy =
    std::remove_cvref_t<decltype(std::declval<Hooks&>().pack(std::declval<const at::Tensor&>()))>;

// Autograd may ask for a tensor again (retain_graph), so unpack gets an lvalue.
template <class Hooks>
concept PackUnpack = requires(Hooks& hooks, PackedBy<Hooks>& packed) {
  { hooks.unpack(packed) } -> std::convertible_to<at::Tensor>;
};

template <PackUnpack Hooks>
class PackerOf final : public TensorPacker {
 public:
  explicit PackerOf(std::shared_ptr<Hooks> hooks) : hooks_(std::move(hooks)) {}

  std::unique_ptr<PackedTensor> pack(const at::Tensor& tensor) override {
    return std::make_unique<Packed>(hooks_, hooks_->pack(tensor));
  }

 private:
  class Packed final : public PackedTensor {
   public:
    Packed(std::shared_ptr<Hooks> hooks, PackedBy<Hooks>&& packed)
        : hooks_(std::move(hooks)), packed_(std::move(packed)) {}
    at::Tensor unpack() override { return hooks_->unpack(packed_); }

   private:
    std::shared_ptr<Hooks> hooks_;
    PackedBy<Hooks> packed_;
  };

  std::shared_ptr<Hooks> hooks_;
};

template <PackUnpack Hooks>
std::shared_ptr<TensorPacker> make_packer(std::shared_ptr<Hooks> hooks) {
  return std::make_shared<PackerOf<Hooks>>(std::move(hooks));
}

template <PackUnpack Hooks>
std::shared_ptr<TensorPacker> make_packer(Hooks hooks) {
  return make_packer(std::make_shared<Hooks>(std::move(hooks)));
}

template <class Pack, class Unpack>
std::shared_ptr<TensorPacker> make_packer(Pack pack, Unpack unpack) {
  return make_packer(CallablePair<Pack, Unpack>{std::move(pack), std::move(unpack)});
}

class HookProvider;

std::shared_ptr<HookProvider> make_packer_provider(std::shared_ptr<TensorPacker> packer);

REPRISE_API void register_packer(torch::autograd::SavedVariable& saved,
                                 std::shared_ptr<TensorPacker> packer);

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_SEAM_PACKER_H_
