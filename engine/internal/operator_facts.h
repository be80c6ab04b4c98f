// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What forward and replay under a policy ask of one call of an operator.
#ifndef REPRISE_ENGINE_INTERNAL_OPERATOR_FACTS_H_
#define REPRISE_ENGINE_INTERNAL_OPERATOR_FACTS_H_

#include <ATen/core/Generator.h>

#include <cstdint>
#include <optional>

#include "reprise/engine/internal/dispatch_mode.h"
#include "reprise/engine/internal/operator_traits.h"
#include "reprise/rng/rng_state.h"

namespace reprise::engine_internal {

// True for operators that a policy is not asked for, because forward and replay may run them
// differently often: detach, profiler ranges, the casts of parameters that autocast caches, and
// what a BypassModeGuard hides.
bool is_untraced(const OperatorCall& call);

// The cast of a parameter, which autocast may have in its cache.
bool is_cast_of_parameter(const OperatorCall& call);

// False for a random operator that is known to draw nothing: a dropout of probability 0.
bool draws(const OperatorCall& call);

// Of a random operator: the generator that it draws from.
at::Generator generator_of(const OperatorCall& call);

// Where a generator stands, as a hash; 0 if it does not tell. Costs a few hundred instructions.
std::uint64_t position_of(const at::Generator& generator);

// Of the metadata of the arguments: shapes and dtypes of tensors, numbers, strings, lists of them.
std::uint64_t fingerprint_of_arguments(const OperatorCall& call);

// The state of the generator that the operator is about to draw from; none if it is not random.
std::optional<RngState> state_before_drawing(const OperatorCall& call);

// The result is a workspace of which the kernel sets what it needs.
bool leaves_parts_unset(const OperatorCall& call, const at::Tensor& result);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_INTERNAL_OPERATOR_FACTS_H_
