// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Parameters to which a region's code assigns data that it has computed (`set_data()`, `.data =`),
// such as those of a layer that the first batch initializes. A replay assigns data of its own; at
// its end the parameters get back what they had, so that an assignment, like a write, happens once.
// Data that forward assigned temporarily, such as gathered shards, is not put back: a replay's
// data stays.
#ifndef REPRISE_ENGINE_OUTSIDE_ASSIGNED_DATA_H_
#define REPRISE_ENGINE_OUTSIDE_ASSIGNED_DATA_H_

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <utility>
#include <vector>

#include "reprise/engine/operators/storage_id.h"

namespace reprise::engine_internal {

// Written by forward's thread; once forward has ended, safe to use on any.
class AssignedData {
 public:
  // Forward reads a parameter, which lies in memory that the region has made.
  void note(const at::Tensor& parameter);
  // Forward has ended.
  void complete();

  // Lives as long as a replay runs the code.
  class Guard {
   public:
    explicit Guard(const AssignedData& assigned);
    ~Guard();
    Guard(Guard&&) = default;
    Guard& operator=(Guard&&) = delete;

   private:
    std::vector<std::pair<at::Tensor, at::Tensor>> data_;  // per parameter, an alias of its data
  };

 private:
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct Parameter {
    WeakTensor tensor;
    StorageId memory;
  };
  std::vector<Parameter> parameters_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OUTSIDE_ASSIGNED_DATA_H_
