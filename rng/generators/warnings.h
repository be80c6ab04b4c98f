// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Warnings at the end of a fork, since a destructor cannot throw.
#ifndef REPRISE_RNG_GENERATORS_WARNINGS_H_
#define REPRISE_RNG_GENERATORS_WARNINGS_H_

#include <c10/core/Device.h>

#include <exception>
#include <string>

namespace reprise::rng_internal {

// The generator on `device` could not be restored to its state before a fork.
void warn_not_restored(c10::Device device, const std::exception_ptr& error) noexcept;

// The stream of a named state on `device` could not be saved.
void warn_not_kept(const std::string& name, c10::Device device,
                   const std::exception_ptr& error) noexcept;

}  // namespace reprise::rng_internal

#endif  // REPRISE_RNG_GENERATORS_WARNINGS_H_
