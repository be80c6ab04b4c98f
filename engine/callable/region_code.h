// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The interface of a stored callable, as function replay uses it.
#ifndef REPRISE_ENGINE_CALLABLE_REGION_CODE_H_
#define REPRISE_ENGINE_CALLABLE_REGION_CODE_H_

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "reprise/base/export.h"

namespace reprise::engine_internal {

// The tensors and generators found in a region's arguments. Not made, filled or destroyed in
// headers, see Note [Compile time].
struct REPRISE_API RegionInputs {
  void add(at::Tensor tensor);
  void add(const at::Generator& generator);

  std::vector<at::Tensor> tensors;
  std::vector<at::Generator> generators;
};

// The code of a region, to be run again by function replay.
class REPRISE_API RegionCode {
 public:
  RegionCode() = default;
  RegionCode(const RegionCode&) = delete;
  RegionCode& operator=(const RegionCode&) = delete;
  virtual ~RegionCode();

  // Moves the tensors of the arguments, and copies their generators, to `inputs`. Called once,
  // before run().
  virtual void take_inputs(RegionInputs& inputs) = 0;

  // Runs the region on `inputs`, which replace RegionInputs::tensors. Drops the results: autograd's
  // saved tensors are the purpose. May be called several times, also concurrently.
  virtual void run(std::span<const at::Tensor> inputs) = 0;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_CALLABLE_REGION_CODE_H_
