// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What one node of autograd holds, without a call of hooks.
#ifndef REPRISE_ENGINE_BILL_NODE_CONTENTS_H_
#define REPRISE_ENGINE_BILL_NODE_CONTENTS_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <optional>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/hooks/seam/torch_version.h"

namespace reprise::engine_internal {

struct NodeContents {
  std::vector<at::Tensor> saved;  // without hooks
  std::vector<const torch::autograd::SavedVariable*> hooked;
  std::vector<at::Tensor> kept;  // by another language's code, beside those
  bool is_complete = true;

  // Adds to `saved` or `hooked`. Not after a backward has released it.
  REPRISE_API void add(const torch::autograd::SavedVariable& variable,
                       const hooks_internal::NodePtr& node);
};

// Reads the nodes and hooks of another language. On the thread that makes the bill.
class REPRISE_API LanguageReader {
 public:
  LanguageReader() = default;
  virtual ~LanguageReader();
  LanguageReader(const LanguageReader&) = delete;
  LanguageReader& operator=(const LanguageReader&) = delete;
  // Returns false for a node of C++.
  virtual bool read(const hooks_internal::NodePtr& node, NodeContents& contents) = 0;
  // Returns the tensors in what hooks have packed; none for hooks of C++.
  virtual std::optional<std::vector<at::Tensor>> packed_by(
      const torch::autograd::SavedVariableHooks& hooks) = 0;
};

// For a node of C++: uses LibTorch's visitor of a node's members, which is made for compiled
// autograd.
NodeContents read_node(const hooks_internal::NodePtr& node);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BILL_NODE_CONTENTS_H_
