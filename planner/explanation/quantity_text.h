// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Bytes, times and shares for people.
#ifndef REPRISE_PLANNER_EXPLANATION_QUANTITY_TEXT_H_
#define REPRISE_PLANNER_EXPLANATION_QUANTITY_TEXT_H_

#include <cstdint>
#include <string>

#include "reprise/base/export.h"

namespace reprise::planner_internal {

REPRISE_API std::string bytes_text(std::int64_t bytes);  // 1.25 GiB
REPRISE_API std::string seconds_text(double seconds);    // 1.25 ms
REPRISE_API std::string percent_text(double fraction);   // 1.25 %
REPRISE_API std::string fixed_text(double number, int digits);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_EXPLANATION_QUANTITY_TEXT_H_
