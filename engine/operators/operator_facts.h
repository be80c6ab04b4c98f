// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Facts about one call of an operator, for forward and for replays.
#ifndef REPRISE_ENGINE_OPERATORS_OPERATOR_FACTS_H_
#define REPRISE_ENGINE_OPERATORS_OPERATOR_FACTS_H_

#include <ATen/core/Generator.h>

#include <cstdint>
#include <optional>

#include "reprise/engine/operators/interception.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/operators/storage_id.h"

namespace reprise::engine_internal {

// Returns true for operators that a policy is not asked for, because forward and replay may run
// them a different number of times: detach, profiler ranges, casts of parameters that autocast
// caches, and operators under a PolicyBypassGuard.
bool is_untraced(const OperatorCall& call);

// Returns whether the call is the cast of a parameter, which autocast may have cached.
bool is_cast_of_parameter(const OperatorCall& call);

// Returns the generator that the operator draws from; undefined if it draws no random numbers.
at::Generator generator_of(const OperatorCall& call);

// Returns the memory of the tensors that the operator is about to write to.
StorageIdList written_memory(const OperatorCall& call);

// Returns whether the operator gives the whole storage of its target new contents, which do not
// depend on the earlier ones.
bool refills(const OperatorTraits& traits, const at::Tensor& target);

// Returns whether the result is a workspace of which the kernel initialises a part.
bool leaves_parts_unset(const OperatorCall& call, const at::Tensor& result);

// Returns the end of a message about operators that differ between two runs of the same code: empty
// unless TorchScript runs that code on this thread now.
const char* torchscript_hint();

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_OPERATOR_FACTS_H_
