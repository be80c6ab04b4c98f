// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The content with which `apply_checkpointing()` replaces an element of a torch::nn::Sequential:
// runs the element's forward, of any signature, as a region.
//
// Note [Elements]: a Sequential has two lists of its elements. forward() walks the first, of
// AnyModules; everything else, such as parameters(), train(), to(), archives, apply() and
// named_modules(), walks the children. Only the first is replaced, by an AnyModule whose ptr() is
// the element itself: nobody but forward() meets the wrapper. `at<T>()` and `ptr<T>()` compare the
// type of the content, and say that it is a CheckpointedElement.
#ifndef REPRISE_ENGINE_MODULES_CHECKPOINTED_ELEMENT_H_
#define REPRISE_ENGINE_MODULES_CHECKPOINTED_ELEMENT_H_

#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "reprise/engine/callable/erased_values.h"
#include "reprise/engine/checkpoint_options.h"
#include "reprise/engine/checkpointed_module.h"

namespace reprise::engine_internal {

// A module, because AnyModule holds nothing else; no child of any other.
class CheckpointedElement final : public torch::nn::Module, public CheckpointedModule {
 public:
  using Arguments = ErasedValues<torch::nn::AnyValue>;

  CheckpointedElement(torch::nn::AnyModule inner, std::optional<CheckpointOptions> options)
      : CheckpointedModule(std::move(options)), inner_(std::move(inner)) {}

  const torch::nn::AnyModule& inner() const { return inner_; }

  // Takes 1 to 8 values of any types.
  torch::nn::AnyValue forward(Arguments arguments);

 private:
  torch::nn::AnyModule inner_;
};

// Returns the element's wrapper; null if it has none.
CheckpointedElement* wrapper_in(torch::nn::AnyModule& element);

}  // namespace reprise::engine_internal

namespace torch::nn {

// See Note [Elements].
template <>
struct AnyModuleHolder<reprise::engine_internal::CheckpointedElement,
                       reprise::engine_internal::CheckpointedElement::Arguments>
    final : public AnyModulePlaceholder {
  using Element = reprise::engine_internal::CheckpointedElement;

  explicit AnyModuleHolder(std::shared_ptr<Element>&& element)
      : AnyModulePlaceholder(typeid(Element)), module(std::move(element)) {}

  AnyValue forward(std::vector<AnyValue>&& arguments) override {
    return module->forward({std::move(arguments)});
  }
  std::shared_ptr<Module> ptr() override { return module->inner().ptr(); }
  std::unique_ptr<AnyModulePlaceholder> copy() const override {
    return std::make_unique<AnyModuleHolder>(*this);
  }
  std::unique_ptr<AnyModulePlaceholder> clone_module(std::optional<Device> device) const override {
    return std::make_unique<AnyModuleHolder>(
        std::make_shared<Element>(module->inner().clone(device), module->checkpoint_options()));
  }

  std::shared_ptr<Element> module;
};

}  // namespace torch::nn

#endif  // REPRISE_ENGINE_MODULES_CHECKPOINTED_ELEMENT_H_
