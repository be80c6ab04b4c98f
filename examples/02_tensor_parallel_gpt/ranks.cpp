// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "ranks.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include "options.h"
#include "reprise/partition/process_group.h"

namespace tensor_parallel_gpt {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// By way of the dispatcher, as any other operator. Boxed: the types that stand for strings differ
// between versions of LibTorch.
at::Tensor call(const char* operation, torch::jit::Stack arguments) {
  c10::Dispatcher::singleton().findSchemaOrThrow(operation, "").callBoxed(arguments);
  return arguments.at(0).toTensor();
}

// A functional collective gives a new tensor, which is there after wait_tensor.
at::Tensor all_reduce_in(const at::Tensor& x, const std::string& operation,
                         const std::string& group) {
  return call("_c10d_functional::wait_tensor",
              {call("_c10d_functional::all_reduce", {x, operation, group})});
}

struct CopyToRanks : torch::autograd::Function<CopyToRanks> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const std::string& group) {
    context->saved_data["group"] = group;
    return x;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {all_reduce_in(gradients[0], "sum", context->saved_data["group"].toStringRef()), {}};
  }
};

struct ReduceFromRanks : torch::autograd::Function<ReduceFromRanks> {
  static at::Tensor forward(AutogradContext* /*context*/, const at::Tensor& x,
                            const std::string& group) {
    return all_reduce_in(x, "sum", group);
  }
  static variable_list backward(AutogradContext* /*context*/, const variable_list& gradients) {
    return {gradients[0], {}};
  }
};

c10::Device choose_device(const std::string& name) {
  if (name == "cpu") {
    if (!reprise::has_gloo()) {
      throw UsageError("ranks on CPUs need Gloo, which Reprise was built without");
    }
    return c10::kCPU;
  }
  const auto local_rank =
      static_cast<c10::DeviceIndex>(reprise::read_launch_environment().local_rank);
  if (!reprise::has_nccl()) {
    throw UsageError("--device cuda: Reprise was built without NCCL, or there is no GPU here");
  }
  if (local_rank >= at::accelerator::deviceCount()) {
    throw UsageError("--device cuda: this machine has fewer GPUs (" +
                     std::to_string(at::accelerator::deviceCount()) +
                     ") than ranks; start fewer of them");
  }
  at::accelerator::setDeviceIndex(local_rank);  // before the group, which takes the current one
  return {c10::kCUDA, local_rank};
}

}  // namespace

Ranks meet(const std::string& device) {
  Ranks ranks{.group = {}, .name = {}, .device = choose_device(device)};
  ranks.group = reprise::init_process_group_from_env();
  ranks.name = ranks.group->getGroupName();
  ranks.rank = ranks.group->getRank();
  ranks.size = ranks.group->getSize();
  c10d::register_process_group(ranks.name, ranks.group);
  return ranks;
}

at::Tensor all_reduce(const at::Tensor& x, const std::string& operation, const Ranks& ranks) {
  return all_reduce_in(x, operation, ranks.name);
}

at::Tensor copy_to_ranks(const at::Tensor& x, const Ranks& ranks) {
  return CopyToRanks::apply(x, ranks.name);
}

at::Tensor reduce_from_ranks(const at::Tensor& x, const Ranks& ranks) {
  return ReduceFromRanks::apply(x, ranks.name);
}

}  // namespace tensor_parallel_gpt
