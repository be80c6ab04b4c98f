// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The record of a region's operators that a policy's answers change.
#ifndef REPRISE_ENGINE_POLICY_DECISION_TARGET_H_
#define REPRISE_ENGINE_POLICY_DECISION_TARGET_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/operator_name.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <optional>

#include "reprise/policies/checkpoint_policy.h"

namespace reprise::engine_internal {

// The decision for one operator.
struct Decision {
  const c10::OperatorName* name;
  std::uint32_t ordinal;  // within the region, from 0
  CheckpointPolicy* decision;
  bool* is_forced;  // by must_save() or must_recompute()
};

// Written by one region's forward, on its thread.
class DecisionTarget {
 public:
  virtual ~DecisionTarget() = default;

  // Returns the operator that made the contents of the tensor's memory, if one of the region did.
  virtual std::optional<Decision> decision_of_creator(const at::Tensor& tensor) = 0;
  virtual Decision last_decision() = 0;
  // Whether the last operator has written in place to a value of the region.
  virtual bool has_last_written() const = 0;
  // Applies an answer to the last operator's results. Throws CheckpointError if they must be saved
  // and cannot be.
  virtual void decide_last(const PolicyAnswer& answer, c10::ArrayRef<c10::IValue> results) = 0;
  // Saves the present contents of the tensor's memory. Returns false if no replay could be supplied
  // with them.
  virtual bool keep_value(const at::Tensor& tensor, const PolicyAnswer& answer) = 0;
  virtual void recompute_value(const at::Tensor& tensor, CheckpointPolicy decision) = 0;
  // The code of a region inside this one may have read the contents of the memory itself.
  virtual void note_read_by_host(const void* /*memory*/) {}
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_POLICY_DECISION_TARGET_H_
