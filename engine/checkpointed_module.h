// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: checkpointed_module.h
//
// The common interface of all modules whose forward is a region: changes their options and gives
// access to the inner module. Obtained from a torch::nn::Module with `as`.
//
// Not for making such modules: see checkpointed.h and apply_checkpointing.h.
//
// Example:
//
//   if (auto* checkpointed = module.as<reprise::CheckpointedModule>()) {
//     checkpointed->set_checkpoint_options(std::nullopt);  // run plainly from now on
//   }
//
// Thread-safety: thread-compatible; do not change options while forward runs.
#ifndef REPRISE_ENGINE_CHECKPOINTED_MODULE_H_
#define REPRISE_ENGINE_CHECKPOINTED_MODULE_H_

#include <optional>

#include "reprise/base/export.h"
#include "reprise/engine/checkpoint_options.h"

namespace torch::nn {
class Module;
}  // namespace torch::nn

namespace reprise {

class REPRISE_API CheckpointedModule {
 public:
  virtual ~CheckpointedModule();

  // Sets the options of regions that start from now on; std::nullopt: forward runs plainly.
  void set_checkpoint_options(std::optional<CheckpointOptions> options) noexcept;
  [[nodiscard]] const std::optional<CheckpointOptions>& checkpoint_options() const noexcept;

  // Returns the module whose forward runs in the region: for a `Checkpointed<Linear>` itself, a
  // torch::nn::LinearImpl; for a wrapper made by `apply_checkpointing()`, the wrapped module.
  [[nodiscard]] virtual torch::nn::Module& inner_module() noexcept = 0;
  [[nodiscard]] virtual const torch::nn::Module& inner_module() const noexcept = 0;

 protected:
  explicit CheckpointedModule(std::optional<CheckpointOptions> options) noexcept;
  CheckpointedModule(const CheckpointedModule&);
  CheckpointedModule& operator=(const CheckpointedModule&);

 private:
  std::optional<CheckpointOptions> options_;
};

}  // namespace reprise

#endif  // REPRISE_ENGINE_CHECKPOINTED_MODULE_H_
