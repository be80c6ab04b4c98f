// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: checkpointed_module.h
//
// `CheckpointedModule`, a base class for your own modules whose forward can be a region. With one
// line in `forward`, every way to call it is covered: a member, a vector of holders, an element of
// a torch::nn::ModuleList or ModuleDict, `as<Block>()`, `ptr<Block>()`. `apply_checkpointing()`
// turns the regions on. It is also the interface of `Checkpointed` modules.
//
// Not for modules of LibTorch: see checkpointed.h and apply_checkpointing.h.
//
// Example:
//
//   struct BlockImpl : torch::nn::Cloneable<BlockImpl>, reprise::CheckpointedModule {
//     at::Tensor forward(const at::Tensor& x) {
//       const auto scope = checkpoint_scope();  // the line
//       return x + down(torch::gelu(up(x)));
//     }
//     ...
//   };
//
//   reprise::apply_checkpointing(*model, reprise::modules_named({"Block"}));
//
// Thread-safety: thread-compatible; do not change options while forward runs.
#ifndef REPRISE_ENGINE_CHECKPOINTED_MODULE_H_
#define REPRISE_ENGINE_CHECKPOINTED_MODULE_H_

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>

#include "reprise/base/export.h"
#include "reprise/engine/checkpoint.h"
#include "reprise/engine/checkpoint_options.h"
#include "reprise/engine/checkpoint_scope.h"

namespace reprise {

class REPRISE_API CheckpointedModule {
 public:
  virtual ~CheckpointedModule();

  // Sets the options of regions that start from now on; std::nullopt: forward runs plainly.
  void set_checkpoint_options(std::optional<CheckpointOptions> options) noexcept;
  [[nodiscard]] const std::optional<CheckpointOptions>& checkpoint_options() const noexcept;

 protected:
  // Without options, until set_checkpoint_options() or `apply_checkpointing()`.
  CheckpointedModule() noexcept;
  explicit CheckpointedModule(std::optional<CheckpointOptions> options) noexcept;
  CheckpointedModule(const CheckpointedModule&);
  CheckpointedModule& operator=(const CheckpointedModule&);

  // Begins a scope with the module's options, which ends with the object returned. Without options,
  // an object without effect.
  //
  // Throws: as `CheckpointScope`.
  [[nodiscard]] CheckpointScope checkpoint_scope() const;
  // The same for a forward with this input, of any shape: without effect as well if it is smaller
  // than `CheckpointOptions::min_input_bytes`.
  [[nodiscard]] CheckpointScope checkpoint_scope(const at::Tensor& input) const;

  // The function form, for code that a scope cannot record: runs `fn(args...)` by `checkpoint()`
  // with the module's options, or plainly without any. If `fn` captures `this`, the module must
  // live until backward.
  //
  // Returns, throws: as `checkpoint()`.
  template <class F, class... Args>
  decltype(auto) checkpoint_region(F&& fn, Args&&... args) const {
    if (options_) {
      return checkpoint(*options_, std::forward<F>(fn), std::forward<Args>(args)...);
    }
    return engine_internal::invoke_callable(fn, std::forward<Args>(args)...);
  }

 private:
  std::optional<CheckpointOptions> options_;
};

}  // namespace reprise

#endif  // REPRISE_ENGINE_CHECKPOINTED_MODULE_H_
