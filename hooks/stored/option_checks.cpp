// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/stored/option_checks.h"

#include <c10/util/StringUtil.h>

#include <stdexcept>

namespace reprise::hooks_internal {

void check_not_negative(std::string_view store, std::initializer_list<NumberOption> options) {
  for (const NumberOption& option : options) {
    if (option.value < 0) {
      throw std::invalid_argument(
          c10::str("[", store, "] ", option.name, " is negative: ", option.value));
    }
  }
}

}  // namespace reprise::hooks_internal
