// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The default generators of the process, found without initialising a device.
#ifndef REPRISE_RNG_GENERATORS_DEFAULT_GENERATORS_H_
#define REPRISE_RNG_GENERATORS_DEFAULT_GENERATORS_H_

#include <ATen/core/Generator.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <vector>

#include "reprise/base/export.h"

namespace reprise::rng_internal {

// Returns the current device of the accelerator, if there is one, without initialising it. Must not
// be cached: a PrivateUse1 backend may register, and the current device changes.
REPRISE_API std::optional<at::Device> current_accelerator();

// Returns whether an accelerator has a context. A backend that cannot answer counts as in use: its
// generator is then captured rather than missed.
REPRISE_API bool is_in_use(at::Device device);

// Returns the generator of an accelerator; undefined if the device's backend has none.
at::Generator default_generator(at::Device device);

// Returns the CPU's, and that of the accelerator's current device.
c10::SmallVector<at::Generator, 2> default_generators_here();

// Returns the generators of the CPU and of all devices of the accelerator.
std::vector<at::Generator> all_default_generators();

}  // namespace reprise::rng_internal

#endif  // REPRISE_RNG_GENERATORS_DEFAULT_GENERATORS_H_
