// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/callable/function_list.h"

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>

namespace reprise::engine_internal {

void check_segments(std::int64_t segments, std::size_t functions) {
  if (functions == 0) {
    throw std::invalid_argument(
        "[engine.checkpoint_sequential] there is nothing to run; received an empty list of "
        "functions; pass at least one");
  }
  if (segments < 1 || static_cast<std::size_t>(segments) > functions) {
    std::ostringstream message;
    message << "[engine.checkpoint_sequential] a segment needs at least one function; received "
            << "segments = " << segments << " for " << functions << " function(s); pass 1 to "
            << functions << " segments";
    throw std::invalid_argument(message.str());
  }
}

std::string segment_name(const std::string& name, std::int64_t index) {
  return name.empty() ? name : name + '[' + std::to_string(index) + ']';
}

}  // namespace reprise::engine_internal
