// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/base/error.h"

#include <cstdint>
#include <utility>

namespace reprise {

Error::Error(std::string message)
    : c10::Error({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, std::move(message)) {}

}  // namespace reprise
