// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/profile/step_interceptor.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <vector>

#include "reprise/engine/embedding/embedding_language.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/operators/storage_id.h"

namespace reprise::engine_internal {
namespace {

void append_tensors(const c10::IValue& value, std::vector<at::Tensor>& tensors) {
  for_each_tensor(value, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
}

bool has_wrapped_result(const OperatorCall& call) {
  bool is_wrapped = false;
  for (const c10::IValue& result : call.results()) {
    for_each_tensor(result, [&](const at::Tensor& tensor) {
      is_wrapped |= tensor.defined() && is_of_language(tensor);
    });
  }
  return is_wrapped;
}

}  // namespace

void synchronize(c10::Device device) {
  if (!device.is_cpu()) {
    c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
  }
}

void record_operator(StepRecorder& recorder, c10::Device device, const OperatorCall& call,
                     OperatorInterceptor* next, RunsOnce once) {
  const OperatorTraits& traits = call.traits;
  if (traits.is_view || traits.is_inplace_view || traits.is_bookkeeping || recorder.is_in_node()) {
    pass_on(call, next);
    return;
  }
  std::vector<at::Tensor> reads;
  for (const c10::IValue& argument : call.arguments()) {
    append_tensors(argument, reads);
  }
  std::vector<at::Tensor> written;
  for (const std::uint32_t argument : traits.written(call.arguments())) {
    append_tensors(call.argument(argument), written);
  }
  synchronize(device);
  const bool is_transfer = traits.transfer != Transfer::kNone;
  recorder.begin_operator(call.op.schema().name(), is_transfer ? RunsOnce::kTransfer : once, reads);
  pass_on(call, next);
  synchronize(device);
  recorder.end_operator(written, has_wrapped_result(call) ? RunsOnce::kWrapped : RunsOnce::kNo);
}

}  // namespace reprise::engine_internal
