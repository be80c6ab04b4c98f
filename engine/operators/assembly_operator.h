// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Operators on tensors of classes of the embedding language, which consist of other tensors.
#ifndef REPRISE_ENGINE_OPERATORS_ASSEMBLY_OPERATOR_H_
#define REPRISE_ENGINE_OPERATORS_ASSEMBLY_OPERATOR_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <vector>

#include "reprise/engine/embedding/embedding_language.h"
#include "reprise/engine/operators/interception.h"

namespace reprise::engine_internal {

// Returns the operator that stands on a tape for Assembly::make(). It has no kernel: its arguments
// are a list of tensors and assembly_constant().
const c10::OperatorHandle& assembly_operator();
c10::IValue assembly_constant(c10::intrusive_ptr<Assembly> assembly);
// Replaces the arguments by the assembled tensor.
void run_assembly(torch::jit::Stack& stack);

// Returns the tensors of such classes among the operator's arguments.
std::vector<at::Tensor> arguments_of_language(const OperatorCall& call);

// Runs the operator as the class of `argument`, one of its tensors, does. The operators that the
// class runs in its place go to `interceptor`.
void run_in_language(const OperatorCall& call, const at::Tensor& argument,
                     OperatorInterceptor* interceptor);

// Returns whether a mode of the language has operators on this thread compute shapes alone.
bool computes_shapes_only();

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_ASSEMBLY_OPERATOR_H_
