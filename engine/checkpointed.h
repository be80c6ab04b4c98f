// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: checkpointed.h
//
// Modules whose forward is a region: `Checkpointed<Linear>` is declared in place of `Linear`. Names
// of parameters, buffers and archive keys are the inner module's, so archives load both
// ways.
//
// Not for a span that is not one module's forward: call `checkpoint()`. Not for a model that exists
// already: see apply_checkpointing.h. This header includes torch/nn, which is slow to compile, and
// is therefore not part of "reprise/reprise.h".
//
// Example:
//
//   struct NetImpl : torch::nn::Module {
//     reprise::Checkpointed<torch::nn::Linear> fc{nullptr};
//     NetImpl() { fc = register_module("fc", decltype(fc)({.name = "fc"}, 256, 256)); }
//     at::Tensor forward(const at::Tensor& x) { return fc(x).relu(); }
//   };
//
// Thread-safety: forward as the wrapped module's; everything else is thread-compatible.
#ifndef REPRISE_ENGINE_CHECKPOINTED_H_
#define REPRISE_ENGINE_CHECKPOINTED_H_

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/checkpoint_options.h"
#include "reprise/engine/checkpointed_module.h"
#include "reprise/engine/modules/checkpointed_forward.h"

namespace reprise {

// The implementation behind `Checkpointed`: `M` (LinearImpl, say) with its forward made a region.
// Everything else of `M` is inherited: its attributes, parameters, train(), to(), archives.
//
// M: has one forward that is no template and no overload, const or not, virtual or not. Its default
//   arguments work through `Checkpointed::operator()` and in torch::nn::Sequential; a direct call
//   of `forward` takes all arguments. A forward that is a template or overloaded
//   (torch::nn::SequentialImpl) becomes one of a tensor in and a tensor out.
// clone() keeps the options. A parent's clone() has the options that its reset() gives.
template <class M, class Signature = engine_internal::ForwardSignatureT<M>>
class CheckpointedImpl {
  static_assert(!std::same_as<M, M>, "Checkpointed: M has no forward that a region can run");
};

template <class M, class Class, class Result, class... Args>
class CheckpointedImpl<M, Result (Class::*)(Args...)>
    : public engine_internal::CheckpointedBase<CheckpointedImpl<M, Result (Class::*)(Args...)>, M> {
  using Base = engine_internal::CheckpointedBase<CheckpointedImpl, M>;

 public:
  using Base::Base;

  // As `M::forward`, run as a region with `checkpoint_options()`. The region keeps the module
  // alive, so a module that keeps its own result keeps itself. Errors: as `checkpoint()`, and
  // CheckpointError if the module is not owned by a std::shared_ptr.
  Result forward(Args... args) { return this->run_as_region(*this, std::forward<Args>(args)...); }
};

template <class M, class Class, class Result, class... Args>
class CheckpointedImpl<M, Result (Class::*)(Args...) const>
    : public engine_internal::CheckpointedBase<
          CheckpointedImpl<M, Result (Class::*)(Args...) const>, M> {
  using Base = engine_internal::CheckpointedBase<CheckpointedImpl, M>;

 public:
  using Base::Base;

  // As above.
  Result forward(Args... args) const {
    return this->run_as_region(*this, std::forward<Args>(args)...);
  }
};

// A module holder like `Holder` whose forward is a region. Converts to what takes a module holder:
// register_module, torch::nn::Sequential, torch::save and torch::load.
//
// Holder: a module holder (torch::nn::Linear), or a module without one (a struct derived from
//   torch::nn::Module).
template <class Holder>
class Checkpointed
    : public torch::nn::ModuleHolder<CheckpointedImpl<engine_internal::ContainedModuleT<Holder>>> {
  using Inner = engine_internal::ContainedModuleT<Holder>;
  using Base = torch::nn::ModuleHolder<CheckpointedImpl<Inner>>;

 public:
  using Impl = CheckpointedImpl<Inner>;

  // A default-constructed module with default options.
  Checkpointed() requires std::default_initializable<Inner>
      : Base(std::make_shared<Impl>(CheckpointOptions{})) {}

  // A new module, constructed from `args`.
  template <class... Args>
  requires std::constructible_from<Impl, CheckpointOptions, Args...>
  explicit Checkpointed(CheckpointOptions options, Args&&... args)
      : Base(std::make_shared<Impl>(std::move(options), std::forward<Args>(args)...)) {}

  // A copy of `existing` that shares its parameters, buffers and submodules: the same tensors, so
  // an update or a conversion through one is seen through both. Members that are values, such as
  // the train/eval flag, are copied.
  Checkpointed(CheckpointOptions options, const Holder& existing)
      : Base(std::make_shared<Impl>(std::move(options),
                                    engine_internal::contained_module(existing))) {}

  // An existing implementation, and the empty holder. Templates, so that `{}` means options.
  template <std::same_as<Impl> T>
  Checkpointed(std::shared_ptr<T> module) : Base(std::move(module)) {}  // NOLINT(*-explicit-*)
  template <std::same_as<std::nullptr_t> T>
  Checkpointed(T /*null*/) : Base(nullptr) {}  // NOLINT(*-explicit-*)

  // As `forward`, and takes the default arguments of the inner forward.
  template <class... Args>
  auto operator()(Args&&... args)
      -> decltype(std::declval<Inner&>().forward(std::forward<Args>(args)...)) {
    return Impl::run_as_region(*this->get(), std::forward<Args>(args)...);
  }
};

}  // namespace reprise

#endif  // REPRISE_ENGINE_CHECKPOINTED_H_
