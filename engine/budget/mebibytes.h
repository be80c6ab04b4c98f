// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#ifndef REPRISE_ENGINE_BUDGET_MEBIBYTES_H_
#define REPRISE_ENGINE_BUDGET_MEBIBYTES_H_

#include <cstdint>
#include <iomanip>
#include <sstream>
#include <string>

namespace reprise::engine_internal {

// Returns "1.50 MiB".
inline std::string in_mebibytes(std::int64_t bytes) {
  constexpr double kMebibyte = 1 << 20;
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << static_cast<double>(bytes) / kMebibyte << " MiB";
  return text.str();
}

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_MEBIBYTES_H_
