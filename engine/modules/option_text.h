// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The options of a region as text, for tables.
#ifndef REPRISE_ENGINE_MODULES_OPTION_TEXT_H_
#define REPRISE_ENGINE_MODULES_OPTION_TEXT_H_

#include <string>

#include "reprise/engine/checkpoint_options.h"

namespace reprise::engine_internal {

// Returns the options that differ from the defaults, such as "policy, early_stop=false"; "defaults"
// if none does. The name is left out.
std::string option_text(const CheckpointOptions& options);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_MODULES_OPTION_TEXT_H_
