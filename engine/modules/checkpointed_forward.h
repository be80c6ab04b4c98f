// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The parts of `CheckpointedImpl`: the signature of a module's forward, and a base class that runs
// that forward as a region.
#ifndef REPRISE_ENGINE_MODULES_CHECKPOINTED_FORWARD_H_
#define REPRISE_ENGINE_MODULES_CHECKPOINTED_FORWARD_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <concepts>
#include <memory>
#include <optional>
#include <ostream>
#include <type_traits>
#include <utility>

#include "reprise/base/export.h"
#include "reprise/engine/checkpoint.h"
#include "reprise/engine/checkpointed_module.h"

namespace reprise::engine_internal {

// The type of &M::forward, or of a forward from tensor to tensor if that is ambiguous.
template <class M>
struct ForwardSignature {
  using type = at::Tensor (M::*)(at::Tensor);
};
template <class M>
requires requires { typename std::type_identity_t<decltype(&M::forward)>; }
struct ForwardSignature<M> {
  using type = decltype(&M::forward);
};
template <class M>
using ForwardSignatureT = typename ForwardSignature<M>::type;

// Returns a shared owner of `module`. Throws CheckpointError if there is none.
REPRISE_API std::shared_ptr<const torch::nn::Module> owner_of(const torch::nn::Module& module);

// Throws a CheckpointError: `original`'s clone() returned `clone`, of another type.
[[noreturn]] REPRISE_API void throw_clone_of_other_type(const torch::nn::Module& original,
                                                        const torch::nn::Module& clone);

// Calls M's own forward on `self`, and extends its lifetime.
template <class M, class Self>
struct InnerForward {
  std::shared_ptr<Self> self;

  template <class... Args>
  auto operator()(Args&&... args) const -> decltype(self->M::forward(std::forward<Args>(args)...)) {
    return self->M::forward(std::forward<Args>(args)...);
  }
};

// The module type behind a holder, or the module type itself.
template <class T>
struct ContainedModule {
  using type = typename T::ContainedType;
};
template <std::derived_from<torch::nn::Module> T>
struct ContainedModule<T> {
  using type = T;
};
template <class T>
using ContainedModuleT = typename ContainedModule<T>::type;

template <class T>
const ContainedModuleT<T>& contained_module(const T& holder) {
  if constexpr (std::derived_from<T, torch::nn::Module>) {
    return holder;
  } else {
    return *holder;
  }
}

template <class T, class M>
inline constexpr bool kIsHolderOf = torch::detail::is_module_holder_of<T, M>::value ||
                                    std::same_as<std::remove_cvref_t<T>, std::shared_ptr<M>>;

template <class Derived, class M>
class CheckpointedBase : public M, public CheckpointedModule {
 public:
  explicit CheckpointedBase(CheckpointOptions options) requires std::default_initializable<M>
      : CheckpointedModule(std::move(options)) {}

  // Constructs an M from the arguments.
  template <class First, class... Rest>
  requires(std::constructible_from<M, First, Rest...> &&
           !(sizeof...(Rest) == 0 &&
             (std::derived_from<std::remove_cvref_t<First>, M> ||
              kIsHolderOf<First, M>))) explicit CheckpointedBase(CheckpointOptions options,
                                                                 First&& first, Rest&&... rest)
      : M(std::forward<First>(first), std::forward<Rest>(rest)...),
        CheckpointedModule(std::move(options)) {}

  // Copies `existing`, sharing its parameters, buffers and submodules.
  explicit CheckpointedBase(CheckpointOptions options,
                            const M& existing) requires std::copy_constructible<M>
      : M(existing), CheckpointedModule(std::move(options)) {}

  // M's own clone() returns a plain M.
  std::shared_ptr<torch::nn::Module> clone(
      const std::optional<c10::Device>& device = std::nullopt) const override {
    std::shared_ptr<torch::nn::Module> copy = M::clone(device);
    if constexpr (std::copy_constructible<M>) {
      if (const auto* inner = dynamic_cast<const M*>(copy.get())) {
        auto result = std::make_shared<Derived>(CheckpointOptions{}, *inner);
        result->set_checkpoint_options(checkpoint_options());
        return result;
      }
    }
    throw_clone_of_other_type(*this, *copy);
  }

  void pretty_print(std::ostream& stream) const override {
    stream << "reprise::Checkpointed(";
    M::pretty_print(stream);
    stream << ')';
  }

  // `Self` is `Derived`, const or not.
  template <class Self, class... Args>
  static decltype(auto) run_as_region(Self& self, Args&&... args) {
    const std::optional<CheckpointOptions>& options = self.checkpoint_options();
    if (!options) {
      return self.M::forward(std::forward<Args>(args)...);
    }
    return checkpoint(*options, InnerForward<M, Self>{std::shared_ptr<Self>(owner_of(self), &self)},
                      std::forward<Args>(args)...);
  }
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_MODULES_CHECKPOINTED_FORWARD_H_
