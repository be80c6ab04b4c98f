// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Recomputation by function replay: runs the stored callable again.
#ifndef REPRISE_ENGINE_FUNCTION_FUNCTION_RECOMPUTATION_H_
#define REPRISE_ENGINE_FUNCTION_FUNCTION_RECOMPUTATION_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "reprise/engine/callable/region_code.h"
#include "reprise/engine/recomputation/recomputation.h"

namespace reprise::engine_internal {

// rng: the generators' states at entry, or none if they are not to be restored. `record` must
// outlive the result.
std::unique_ptr<Recomputation> make_function_recomputation(RegionRecord& record,
                                                           const RegionEntry& entry,
                                                           std::unique_ptr<RegionCode> code,
                                                           const std::vector<at::Tensor>& arguments,
                                                           std::optional<RngSnapshot> rng);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_FUNCTION_FUNCTION_RECOMPUTATION_H_
