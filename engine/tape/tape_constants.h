// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The arguments of operators that are no tensors of the region: numbers, strings, lists of them,
// numbers that LibTorch has wrapped into tensors, and process groups.
#ifndef REPRISE_ENGINE_TAPE_TAPE_CONSTANTS_H_
#define REPRISE_ENGINE_TAPE_TAPE_CONSTANTS_H_

#include <ATen/core/ivalue.h>

#include <cstddef>
#include <optional>

namespace reprise::engine_internal {

// False for what has, or may have, tensors or a state of its own inside: then the operator cannot
// be run again from its arguments.
bool is_constant(const c10::IValue& value);

// A device without an index is the one that is current, now; in a replay it need not be. Anything
// else is handed back as it is.
c10::IValue with_device_index(const c10::IValue& value);

// For those of which many are equal; none for others.
std::optional<std::size_t> hash_of_constant(const c10::IValue& value);

// Whether two constants that have a hash are the same, bit for bit.
bool is_same_constant(const c10::IValue& one, const c10::IValue& other);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_TAPE_CONSTANTS_H_
