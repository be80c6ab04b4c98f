// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/callable/region_code.h"

#include <utility>

namespace reprise::engine_internal {

RegionCode::~RegionCode() = default;

void RegionInputs::add(at::Tensor tensor) { tensors.push_back(std::move(tensor)); }
void RegionInputs::add(const at::Generator& generator) { generators.push_back(generator); }

}  // namespace reprise::engine_internal
