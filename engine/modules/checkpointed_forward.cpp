// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/modules/checkpointed_forward.h"

#include <c10/util/StringUtil.h>

#include <memory>

#include "reprise/engine/errors.h"

namespace reprise::engine_internal {

std::shared_ptr<const torch::nn::Module> owner_of(const torch::nn::Module& module) {
  auto owner = module.weak_from_this().lock();
  if (owner == nullptr) {
    throw CheckpointError(c10::str(
        "[engine.checkpointed_module] a region must keep its module alive; received a ",
        module.name(),
        " that no std::shared_ptr owns; make it with its holder, or with std::make_shared"));
  }
  return owner;
}

void throw_clone_of_other_type(const torch::nn::Module& original, const torch::nn::Module& clone) {
  throw CheckpointError(
      c10::str("[engine.checkpointed_module] clone() must make a copyable module of its own type; "
               "received a ",
               clone.name(), " from a ", original.name(),
               "; derive it from torch::nn::Cloneable, or override clone()"));
}

}  // namespace reprise::engine_internal
