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

struct Variant {
  std::string name;
  // Runs all blocks; gives the loss.
  std::function<at::Tensor(const Model& model)> forward;
  bool is_floor = false;  // for its time only
};

// `none` first, then the two floors.
const std::vector<Variant>& variants();

}  // namespace reprise::bench

#endif  // REPRISE_BENCH_MODELS_VARIANTS_H_
