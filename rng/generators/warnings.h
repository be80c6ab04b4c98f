// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What the end of a fork reports, since a destructor cannot throw.
#ifndef REPRISE_RNG_GENERATORS_WARNINGS_H_
#define REPRISE_RNG_GENERATORS_WARNINGS_H_

#include <c10/core/Device.h>

#include <exception>
#include <string>

namespace reprise::rng_internal {

// The generator on `device` could not be set back to where it stood before a fork.
void warn_not_restored(c10::Device device, const std::exception_ptr& error) noexcept;

// Where the stream of a named state stands on `device` could not be kept.
void warn_not_kept(const std::string& name, c10::Device device,
                   const std::exception_ptr& error) noexcept;

}  // namespace reprise::rng_internal

#endif  // REPRISE_RNG_GENERATORS_WARNINGS_H_
