// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#ifndef REPRISE_ENGINE_CALLABLE_REGION_CODE_H_
#define REPRISE_ENGINE_CALLABLE_REGION_CODE_H_

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "reprise/base/export.h"

namespace reprise::engine_internal {

// The tensors and generators found in a region's arguments.
struct RegionInputs {
  std::vector<at::Tensor> tensors;
  std::vector<at::Generator> generators;
};

// How a region is run again.
class REPRISE_API RegionCode {
 public:
  RegionCode() = default;
  RegionCode(const RegionCode&) = delete;
  RegionCode& operator=(const RegionCode&) = delete;
  virtual ~RegionCode();

  // Runs the region on `inputs`, which stand for RegionInputs::tensors. Results are dropped: what
  // counts is what autograd saves on the way. May be called several times, also concurrently.
  virtual void run(std::span<const at::Tensor> inputs) = 0;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_CALLABLE_REGION_CODE_H_
