// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Linked into a program of tests, takes the dispatch key that the engine would use, as LibTorch's
// own tensors without data may do one day: the engine's kernels for each operator serve instead.
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace reprise::testing {
namespace {

void fail(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack*) {
  TORCH_CHECK(false, "somebody else's fallback was called for ", op.operator_name());
}

const c10::RegistrationHandleRAII taken = c10::Dispatcher::singleton().registerFallback(
    c10::DispatchKey::Fake, c10::KernelFunction::makeFromBoxedFunction<&fail>(), "reprise test");

}  // namespace
}  // namespace reprise::testing
