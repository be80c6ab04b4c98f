// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The rows of saved_tensors().
#ifndef REPRISE_ENGINE_BILL_GRAPH_BILL_H_
#define REPRISE_ENGINE_BILL_GRAPH_BILL_H_

#include <torch/csrc/autograd/function.h>

#include <vector>

#include "reprise/base/export.h"
#include "reprise/engine/bill/node_contents.h"
#include "reprise/engine/saved_tensors.h"
#include "reprise/hooks/seam/torch_version.h"

namespace reprise::engine_internal {

// reader: null for C++ alone.
REPRISE_API SavedTensors bill_of(std::vector<hooks_internal::NodePtr> roots,
                                 LanguageReader* reader = nullptr);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BILL_GRAPH_BILL_H_
