// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: checkpointed_module.h
//
// What every module whose forward is a region has in common, whatever its type: its options can be
// changed, and the module inside can be reached. Found from a torch::nn::Module by `as`. To make
// such modules, see checkpointed.h.
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

  // The options of the regions that start from now on; std::nullopt: forward runs plainly.
  void set_checkpoint_options(std::optional<CheckpointOptions> options) noexcept;
  [[nodiscard]] const std::optional<CheckpointOptions>& checkpoint_options() const noexcept;

  // The module whose forward runs in the region. Of a `Checkpointed<Linear>` this is itself, a
  // torch::nn::LinearImpl; of a wrapper that `apply_checkpointing()` made, the wrapped one.
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
