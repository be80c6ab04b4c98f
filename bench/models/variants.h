// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: variants.h
//
// The ways to run the blocks of a model.
#ifndef REPRISE_BENCH_MODELS_VARIANTS_H_
#define REPRISE_BENCH_MODELS_VARIANTS_H_

#include <string>
#include <vector>

#include "bench/models/model.h"

namespace reprise::bench {

enum class Measured { kAll, kTime, kMemory };

struct Variant {
  std::string name;
  // Runs all blocks; returns the loss.
  std::function<at::Tensor(const Model& model)> forward;
  Measured measured = Measured::kAll;
};

// `none` first, then the two floors, measured for their time only.
const std::vector<Variant>& variants();

}  // namespace reprise::bench

#endif  // REPRISE_BENCH_MODELS_VARIANTS_H_
