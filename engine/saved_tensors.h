// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: saved_tensors.h
//
// The bill of a graph: which tensors autograd, regions and stores hold for its backward, in bytes.
// For memory that a program has already measured, see memory_report.h.
//
// Example:
//
//   const at::Tensor loss = model->forward(x).square().mean();
//   std::cout << reprise::saved_tensors(loss).to_string();
//
// Thread-safety: thread-safe; not while a backward through the same graph runs.
#ifndef REPRISE_ENGINE_SAVED_TENSORS_H_
#define REPRISE_ENGINE_SAVED_TENSORS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "reprise/base/export.h"

namespace reprise {

// Storages that first appear at one saved tensor. A string is empty where its value is unknown.
struct SavedTensorRow {
  std::string region;  // that holds the tensor; "(without a name)" for one without a name
  std::string node;    // of autograd: "GeluBackward0"
  std::string op;      // that made the tensor, or that the node belongs to: "aten::gelu"
  // "saved", "leaf", "kept on ctx", "packed by hooks", "in a store", "input of a region", "saved of
  // a region", "kept of a region" (keep()), "retained of a region"; in a store of a region: "input,
  // in a store".
  std::string kind;
  std::int64_t bytes = 0;  // on the tensor's device
  std::string shape;       // "128x64"
  std::string dtype;       // "float32"
  std::string device;      // "cpu", "cuda:0"
  // Of the node: nodes made later by the same thread have higher ones, see
  // at::sequence_number::peek().
  std::uint64_t sequence_number = 0;
};

struct SavedTensors {
  std::vector<SavedTensorRow> rows;  // nodes of forward's beginning first
  // The tensors that gradients are for: parameters, and inputs that require grad. They outlive the
  // graph as a rule, and are in none of the sums.
  std::vector<SavedTensorRow> leaves;
  // Names of the nodes of which some tensors are unknown: others' hooks of C++ hold them, the node
  // does not show what it saves, or a saved tensor has been written since.
  std::vector<std::string> unread;

  // Returns the bytes of all rows.
  [[nodiscard]] REPRISE_API std::int64_t total_bytes() const;
  // Returns a human-readable table: bytes per region, node and kind, the largest first.
  [[nodiscard]] REPRISE_API std::string to_string() const;
};

// Returns what the graph behind tensors holds for backward, each storage once: tensors that nodes
// save (of custom Functions as well), what regions hold (inputs, results that a policy or a budget
// retains), and what stores hold on the tensors' device. Nothing is recomputed, no hook is called,
// and nothing changes. What a region's code refers to besides its arguments is not in it.
//
// outputs: such as the loss; any shape, dtype and device.
// Stream: does not synchronise.
[[nodiscard]] REPRISE_API SavedTensors saved_tensors(at::TensorList outputs);

}  // namespace reprise

#endif  // REPRISE_ENGINE_SAVED_TENSORS_H_
