// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/base/version.h"

namespace reprise {

int version() noexcept { return REPRISE_VERSION; }

}  // namespace reprise
