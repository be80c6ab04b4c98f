// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/testing/default_device.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <cstddef>

namespace reprise::testing {
namespace {

// And above the key on which Reprise intercepts; LibTorch keeps it for tests.
constexpr auto kAboveAutograd = c10::DispatchKey::TESTING_ONLY_GenericMode;

c10::Device default_device(c10::kCPU);

bool takes_tensors(const c10::FunctionSchema& schema) {
  const auto& arguments = schema.arguments();
  return std::any_of(arguments.begin(), arguments.end(), [](const c10::Argument& argument) {
    return argument.type()->isSubtypeOf(*c10::OptionalType::ofTensor()) ||
           argument.type()->isSubtypeOf(*c10::ListType::ofTensors());
  });
}

// An operator that takes tensors gets its device from these.
void on_default_device(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                       torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const auto device = op.schema().argumentIndexWithName("device");
  if (device && !takes_tensors(op.schema())) {
    c10::IValue& value =
        torch::jit::peek(*stack, static_cast<std::size_t>(*device), arguments.size());
    if (value.isNone()) {
      value = default_device;
    }
  }
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kAboveAutograd),
                     stack);
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&on_default_device>());
}

}  // namespace

DefaultDevice::DefaultDevice(c10::Device device) : included_(kAboveAutograd) {
  default_device = device;
}

}  // namespace reprise::testing
