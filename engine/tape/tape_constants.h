// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Operator arguments other than tensors of the region: numbers, strings, lists of them, numbers
// that LibTorch has wrapped into tensors, and process groups.
#ifndef REPRISE_ENGINE_TAPE_TAPE_CONSTANTS_H_
#define REPRISE_ENGINE_TAPE_TAPE_CONSTANTS_H_

#include <ATen/core/ivalue.h>

#include <cstddef>
#include <optional>

namespace reprise::engine_internal {

// Returns false for an argument that has, or may have, tensors or state inside: the operator then
// cannot be repeated from its arguments.
bool is_constant(const c10::IValue& value);

// Returns a device without an index as the current device, which may be another one in a replay,
// and any other argument unchanged.
c10::IValue with_device_index(const c10::IValue& value);

// Returns a hash for kinds of constants that often repeat; none for others.
std::optional<std::size_t> hash_of_constant(const c10::IValue& value);

// Returns whether two constants that have a hash are bitwise equal.
bool is_same_constant(const c10::IValue& one, const c10::IValue& other);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_TAPE_CONSTANTS_H_
