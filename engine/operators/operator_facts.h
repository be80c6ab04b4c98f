// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What forward and replay under a policy ask of one call of an operator.
#ifndef REPRISE_ENGINE_OPERATORS_OPERATOR_FACTS_H_
#define REPRISE_ENGINE_OPERATORS_OPERATOR_FACTS_H_

#include <ATen/core/Generator.h>

#include <cstdint>
#include <optional>

#include "reprise/engine/operators/interception.h"
#include "reprise/engine/operators/operator_traits.h"

namespace reprise::engine_internal {

// True for operators that a policy is not asked for, because forward and replay may run them
// differently often: detach, profiler ranges, the casts of parameters that autocast caches, and
// what a PolicyBypassGuard hides.
bool is_untraced(const OperatorCall& call);

// The cast of a parameter, which autocast may have in its cache.
bool is_cast_of_parameter(const OperatorCall& call);

// The generator that the operator draws from; undefined if it draws no random numbers.
at::Generator generator_of(const OperatorCall& call);

// Of the metadata of the arguments: shapes and dtypes of tensors, numbers, strings, lists of them.
std::uint64_t fingerprint_of_arguments(const OperatorCall& call);

// The result is a workspace of which the kernel sets what it needs.
bool leaves_parts_unset(const OperatorCall& call, const at::Tensor& result);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_OPERATOR_FACTS_H_
