// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/keep.h"

#include "reprise/engine/function/kept_calls.h"

namespace reprise::engine_internal {

PartsOfResult keep_parts(std::string_view name, const std::vector<at::Tensor>& arguments,
                         const std::function<PartsOfResult()>& run) {
  KeptCallPlace place(name);
  if (!place.is_in_region()) {
    return run();
  }
  return place.is_recomputed() ? place.take(arguments) : place.run(arguments, run);
}

}  // namespace reprise::engine_internal
