// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Checks of the numbers in a store's options.
#ifndef REPRISE_HOOKS_STORED_OPTION_CHECKS_H_
#define REPRISE_HOOKS_STORED_OPTION_CHECKS_H_

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "reprise/base/export.h"

namespace reprise::hooks_internal {

struct NumberOption {
  std::string_view name;
  std::int64_t value;
};

// Throws std::invalid_argument if one is negative. store: its name in the message.
REPRISE_API void check_not_negative(std::string_view store,
                                    std::initializer_list<NumberOption> options);

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_STORED_OPTION_CHECKS_H_
