// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/bill/node_contents.h"

#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <exception>
#include <string_view>

#include "reprise/hooks/seam/variable_hooks.h"

namespace reprise::engine_internal {

using torch::autograd::SavedVariable;

void NodeContents::add(const SavedVariable& variable, const hooks_internal::NodePtr& node) {
  if (hooks_internal::hooks_of(variable) != nullptr) {
    hooked.push_back(&variable);
    return;
  }
  try {
    if (const at::Tensor tensor = variable.unpack(node); tensor.defined()) {
      saved.push_back(tensor);
    }
  } catch (const std::exception&) {  // written since
    is_complete = false;
  }
}

LanguageReader::~LanguageReader() = default;

NodeContents read_node(const hooks_internal::NodePtr& node) {
  // The visitor does not know every kind of view, and what is written holds nothing by itself.
  if (const auto* const slices = dynamic_cast<const torch::autograd::CopySlices*>(node.get())) {
    return slices->fn == nullptr ? NodeContents() : read_node(slices->fn);
  }
  const hooks_internal::HookListing listing;
  torch::dynamo::autograd::AutogradCompilerCall call(
      torch::dynamo::autograd::SizeInput::DynType::STATIC);
  torch::dynamo::autograd::NodeCall node_call(0, node);
  torch::dynamo::autograd::CompiledNodeArgs visitor(call, node_call);
  NodeContents contents;
  try {
    node->compiled_args(visitor);
  } catch (const std::exception& error) {
    // A node that a backward has released holds nothing.
    const bool is_released =
        std::string_view(error.what()).find(torch::autograd::ERR_BACKWARD_TWICE) !=
        std::string_view::npos;
    contents.is_complete = is_released;
  }
  contents.saved = call.tensor_args.inputs;
  for (const auto& [variable, places] : call.sv_to_hooks) {
    contents.hooked.push_back(variable);
  }
  return contents;
}

}  // namespace reprise::engine_internal
