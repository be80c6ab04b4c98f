// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/bill/graph_bill.h"

#include <c10/core/ScalarType.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "reprise/engine/bill/operator_names.h"
#include "reprise/engine/embedding/embedding_language.h"
#include "reprise/engine/kept/held_value.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/region/frame.h"
#include "reprise/hooks/seam/variable_hooks.h"
#include "reprise/hooks/stored/sparse_parts.h"
#include "reprise/hooks/stored/store_hooks.h"

namespace reprise::engine_internal {
namespace {

using hooks_internal::NodePtr;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::SavedVariableHooks;

// Returns the nodes behind the roots, those of forward's beginning first.
std::vector<NodePtr> nodes_behind(std::vector<NodePtr> stack) {
  std::vector<NodePtr> nodes;
  absl::flat_hash_set<Node*> seen;
  while (!stack.empty()) {
    const NodePtr node = std::move(stack.back());
    stack.pop_back();
    if (node == nullptr || !seen.insert(node.get()).second) {
      continue;
    }
    for (const torch::autograd::Edge& edge : node->next_edges()) {
      stack.push_back(edge.function);
    }
    nodes.push_back(node);
  }
  std::stable_sort(nodes.begin(), nodes.end(), [](const NodePtr& a, const NodePtr& b) {
    return a->sequence_nr() < b->sequence_nr();
  });
  return nodes;
}

// Calls `visitor` with each dense tensor in which the tensor has its elements.
template <class Visitor>
void for_each_part(const at::Tensor& tensor, Visitor&& visitor) {
  std::vector<at::Tensor> parts;
  if (is_of_language(tensor) && append_parts(tensor, parts)) {
    for (const at::Tensor& part : parts) {
      if (!is_of_language(part)) {
        for_each_part(part, visitor);
      }
    }
  } else if (hooks_internal::is_sparse(tensor)) {
    for (const at::Tensor& part : hooks_internal::sparse_parts(tensor)) {
      visitor(part);
    }
  } else {
    visitor(tensor);
  }
}

std::string shape_of(const at::Tensor& tensor) {
  if (tensor.is_nested()) {
    return "";
  }
  std::string text;
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim) {
    text += (dim == 0 ? "" : "x") + std::to_string(tensor.size(dim));
  }
  return text;
}

SavedTensorRow row_of(const char* kind) {
  SavedTensorRow row;
  row.kind = kind;
  return row;
}

class Bill {
 public:
  explicit Bill(LanguageReader* reader) : reader_(reader) {}

  void add_leaf(Node& node) {
    if (const auto* const leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(&node)) {
      add_tensor(node, leaf->variable, row_of("leaf"), bill_.leaves);
    }
  }

  void add_node(const NodePtr& node) {
    if (dynamic_cast<const torch::autograd::AccumulateGrad*>(node.get()) != nullptr) {
      return;
    }
    NodeContents contents;
    if (reader_ == nullptr || !reader_->read(node, contents)) {
      contents = read_node(node);
    }
    for (const at::Tensor& tensor : contents.saved) {
      add_tensor(*node, tensor, row_of("saved"), bill_.rows);
    }
    for (const SavedVariable* const variable : contents.hooked) {
      add_hooked(*node, *hooks_internal::hooks_of(*variable));
    }
    for (const at::Tensor& tensor : contents.kept) {
      add_tensor(*node, tensor, row_of("kept on ctx"), bill_.rows);
    }
    if (!contents.is_complete) {
      bill_.unread.push_back(node->name());
    }
  }

  SavedTensors take() && { return std::move(bill_); }

 private:
  void add_hooked(Node& node, const SavedVariableHooks& hooks) {
    HeldValues held;
    SavedTensorRow row;
    if (Frame* const frame = Frame::of_slot(hooks)) {
      if (!seen_.insert(frame).second) {
        return;
      }
      row.region = frame->name().empty() ? "(without a name)" : frame->name();
      held = frame->held();
    } else if (dynamic_cast<const hooks_internal::StoreHooks*>(&hooks) != nullptr) {
      append_held(hooks, "in a store", held);
    } else {
      add_packed(node, hooks);
    }
    for (HeldValue& value : held) {
      row.op = std::move(value.op);
      row.kind = value.why;
      add_held(node, value, row);
    }
  }

  void add_packed(Node& node, const SavedVariableHooks& hooks) {
    const auto tensors = reader_ != nullptr ? reader_->packed_by(hooks) : std::nullopt;
    if (!tensors) {
      bill_.unread.push_back(node.name());
      return;
    }
    for (const at::Tensor& tensor : *tensors) {
      add_tensor(node, tensor, row_of("packed by hooks"), bill_.rows);
    }
  }

  void add_held(Node& node, const HeldValue& value, SavedTensorRow row) {
    const bool is_of_region = !row.region.empty();
    if (value.tensor.defined()) {
      row.kind += is_of_region ? " of a region" : "";
      add_tensor(node, value.tensor, std::move(row), bill_.rows);
    } else if (seen_.insert(value.stored.get()).second) {
      row.kind += is_of_region ? ", in a store" : "";
      row.bytes = value.stored->device_bytes();
      add_row(node, std::move(row), bill_.rows);
    }
  }

  void add_tensor(Node& node, const at::Tensor& tensor, SavedTensorRow row,
                  std::vector<SavedTensorRow>& rows) {
    bool is_new = false;
    for_each_part(tensor, [&](const at::Tensor& part) {
      const c10::StorageImpl* const storage = part.has_storage() ? storage_of(part) : nullptr;
      if (storage != nullptr && seen_.insert(storage).second) {
        row.bytes += static_cast<std::int64_t>(storage->nbytes());
        is_new = true;
      }
    });
    if (is_new) {
      row.shape = shape_of(tensor);
      row.dtype = c10::getDtypeNames(tensor.scalar_type()).first;
      row.device = tensor.device().str();
      add_row(node, std::move(row), rows);
    }
  }

  void add_row(Node& node, SavedTensorRow row, std::vector<SavedTensorRow>& rows) {
    row.node = node.name();
    row.sequence_number = node.sequence_nr();
    if (row.op.empty() && row.region.empty()) {
      row.op = operator_of_node(row.node);
    }
    rows.push_back(std::move(row));
  }

  LanguageReader* const reader_;
  SavedTensors bill_;
  absl::flat_hash_set<const void*> seen_;  // storages, entries of stores, regions
};

}  // namespace

SavedTensors bill_of(std::vector<NodePtr> roots, LanguageReader* reader) {
  const std::vector<NodePtr> nodes = nodes_behind(std::move(roots));
  Bill bill(reader);
  for (const NodePtr& node : nodes) {
    bill.add_leaf(*node);
  }
  for (const NodePtr& node : nodes) {
    bill.add_node(node);
  }
  return std::move(bill).take();
}

}  // namespace reprise::engine_internal
