// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The wrapper with which `apply_checkpointing()` replaces an element of a torch::nn::Sequential:
// runs the element's forward, of any signature, as a region.
#ifndef REPRISE_ENGINE_MODULES_CHECKPOINTED_ANY_H_
#define REPRISE_ENGINE_MODULES_CHECKPOINTED_ANY_H_

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>

#include <memory>
#include <optional>
#include <ostream>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/engine/callable/erased_values.h"
#include "reprise/engine/checkpoint_options.h"
#include "reprise/engine/checkpointed_module.h"

namespace reprise::engine_internal {

// Has the parameters, buffers and children of the inner module under the same names: the Module
// base is a copy of the inner module's, which shares the tensors and children but not the train
// flag.
class CheckpointedAnyImpl final : public torch::nn::Module, public CheckpointedModule {
 public:
  using Arguments = ErasedValues<torch::nn::AnyValue>;
  struct Unused {};

  CheckpointedAnyImpl(torch::nn::AnyModule inner, std::optional<CheckpointOptions> options);

  // Takes 1 to 8 values of any types. AnyModule derives the number and types of arguments from this
  // signature; `_forward_populate_default_args` packs its arguments into the first.
  torch::nn::AnyValue forward(Arguments arguments, Unused, Unused, Unused, Unused, Unused, Unused,
                              Unused);

  torch::nn::Module& inner_module() noexcept override { return *inner_module_; }
  const torch::nn::Module& inner_module() const noexcept override { return *inner_module_; }

  // Copies the Module base again, after the inner module may have changed its children.
  void share_state_of_inner();

  std::shared_ptr<torch::nn::Module> clone(
      const std::optional<c10::Device>& device = std::nullopt) const override;
  void train(bool on = true) override;
  bool is_training() const noexcept override;
  void to(c10::Device device, c10::ScalarType dtype, bool non_blocking = false) override;
  void to(c10::ScalarType dtype, bool non_blocking = false) override;
  void to(c10::Device device, bool non_blocking = false) override;
  void zero_grad(bool set_to_none = true) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;
  void pretty_print(std::ostream& stream) const override;
  bool is_serializable() const override;

 protected:
  bool _forward_has_default_args() override { return true; }
  unsigned int _forward_num_required_args() override { return 1; }
  std::vector<torch::nn::AnyValue> _forward_populate_default_args(
      std::vector<torch::nn::AnyValue>&& arguments) override;

 private:
  template <typename ModuleType, typename... ArgumentTypes>
  friend struct torch::nn::AnyModuleHolder;

  torch::nn::AnyValue run(Arguments arguments);

  torch::nn::AnyModule inner_;
  std::shared_ptr<torch::nn::Module> inner_module_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_MODULES_CHECKPOINTED_ANY_H_
