// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/operators/operator_facts.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include "reprise/engine/operators/autograd_facts.h"
#include "reprise/engine/operators/bypass.h"
#include "reprise/engine/operators/random_draw.h"

namespace reprise::engine_internal {
namespace {

// Returns false for a dropout of probability 0.
bool draws(const OperatorCall& call) {
  const auto& probability = call.traits.probability_argument;
  return !probability || !call.argument(*probability).isDouble() ||
         call.argument(*probability).toDouble() != 0;
}

}  // namespace

bool is_cast_of_parameter(const OperatorCall& call) {
  if (!call.traits.is_cast) {
    return false;
  }
  const c10::IValue& self = call.argument(0);
  return self.isTensor() && is_leaf_with_gradient(self.toTensor()) && !is_view(self.toTensor());
}

namespace {

// Undefined on meta.
at::Generator find_generator(const OperatorCall& call) {
  std::optional<at::Device> device;
  for (const c10::IValue& argument : call.arguments()) {
    if (argument.isGenerator() && argument.toGenerator().defined()) {
      return argument.toGenerator();
    }
    if (argument.isDevice()) {
      device = argument.toDevice();
    }
    for_each_tensor(argument,
                    [&](const at::Tensor& tensor) { device = device.value_or(tensor.device()); });
  }
  const at::Device where = device.value_or(at::Device(at::kCPU));
  const bool may_have_none = call.traits.may_draw && !where.is_cuda() && !where.is_xpu();
  if (where.is_meta() || (may_have_none && !where.is_cpu())) {
    return {};
  }
  return where.is_cpu() ? at::detail::getDefaultCPUGenerator()
                        : at::globalContext().defaultGenerator(where);
}

}  // namespace

// A dropout of probability 0 draws nothing (pytorch#187985).
at::Generator generator_of(const OperatorCall& call) {
  if (!(call.traits.is_random || call.traits.may_draw) || !draws(call)) {
    return {};
  }
  at::Generator generator = find_generator(call);
  // Whether others' operators draw, an unreadable state does not show, as while a graph is
  // captured.
  const bool is_unreadable =
      call.traits.may_draw && generator.defined() && position_of(generator) == 0;
  return is_unreadable ? at::Generator() : generator;
}

bool is_untraced(const OperatorCall& call) {
  return call.traits.is_bookkeeping || is_bypassed() || is_cast_of_parameter(call);
}

StorageIdList written_memory(const OperatorCall& call) {
  StorageIdList memory;
  for (const std::uint32_t index : call.traits.written(call.arguments())) {
    append_storage_ids(call.argument(index), memory);
  }
  return memory;
}

bool refills(const OperatorTraits& traits, const at::Tensor& target) {
  return traits.overwrites && !traits.undeclared && !target.is_nested() &&
         target.layout() == c10::kStrided && storage_of(target) != nullptr &&
         target.nbytes() == target.storage().nbytes() && target.is_non_overlapping_and_dense();
}

bool leaves_parts_unset(const OperatorCall& call, const at::Tensor& result) {
  return call.traits.leaves_parts_unset &&
         (result.scalar_type() == at::kByte || call.traits.is_loss_of_sequences);
}

const char* torchscript_hint() {
  return torch::jit::currentCallstack().empty() ? ""
                                                : ". TorchScript runs this code: it profiles the "
                                                  "first runs, optimises, and runs other "
                                                  "operators from then on. Use a CheckpointScope, "
                                                  "which runs no code again, or run the "
                                                  "code a few times before";
}

}  // namespace reprise::engine_internal
