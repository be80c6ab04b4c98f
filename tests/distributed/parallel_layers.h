// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Tensor parallelism as users write it: collectives in three styles, and the two autograd functions
// around them (f and g of Megatron-LM, arXiv:1909.08053).
#ifndef REPRISE_TESTS_DISTRIBUTED_PARALLEL_LAYERS_H_
#define REPRISE_TESTS_DISTRIBUTED_PARALLEL_LAYERS_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/torch.h>

#include <string>
#include <torch/csrc/distributed/c10d/Functional.hpp>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "tests/distributed/ranks.h"

namespace reprise::testing {

// How to call a collective.
enum class Style {
  kInPlace,     // group->allreduce(), Work::wait()
  kFunction,    // c10d::all_reduce(), c10d::wait_tensor(), which the dispatcher sees the inside of
  kFunctional,  // the operators of _c10d_functional
};
inline const std::vector<Style> kStyles = {Style::kInPlace, Style::kFunction, Style::kFunctional};

// While alive, c10d knows the group by a name.
class [[nodiscard]] ParallelGroup {
 public:
  explicit ParallelGroup(const Rank& rank) : group_(rank.group) {
    c10d::register_process_group(name(), group_);
  }
  ~ParallelGroup() { c10d::unregister_process_group(name()); }
  ParallelGroup(const ParallelGroup&) = delete;
  ParallelGroup& operator=(const ParallelGroup&) = delete;

  static std::string name() { return "tensor_parallel"; }
  static c10::intrusive_ptr<c10d::ProcessGroup> get() {
    return c10d::resolve_process_group(name());
  }

 private:
  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

// Boxed, because the C++ signature is another one in each version of LibTorch.
inline at::Tensor call_functional(const char* name, torch::jit::Stack stack) {
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(&stack);
  return stack[0].toTensor();
}

inline at::Tensor start_all_reduce(const at::Tensor& tensor) {
  return call_functional("_c10d_functional::all_reduce", {tensor, "sum", ParallelGroup::name()});
}

inline at::Tensor wait_tensor(const at::Tensor& tensor) {
  return call_functional("_c10d_functional::wait_tensor", {tensor});
}

// The sum over the ranks.
inline at::Tensor all_reduce(const at::Tensor& tensor, Style style) {
  if (style == Style::kFunctional) {
    return wait_tensor(start_all_reduce(tensor));
  }
  if (style == Style::kFunction) {
    return c10d::wait_tensor(c10d::all_reduce(tensor, "sum", ParallelGroup::name()));
  }
  std::vector<at::Tensor> sum = {tensor.clone()};
  ParallelGroup::get()->allreduce(sum)->wait();
  return sum[0];
}

// In front of a layer of which each rank has some columns.
struct CopyToRanks : torch::autograd::Function<CopyToRanks> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& tensor,
                            std::int64_t style) {
    context->saved_data["style"] = style;
    return tensor.view_as(tensor);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto style = static_cast<Style>(context->saved_data["style"].toInt());
    return {all_reduce(gradients[0], style), at::Tensor()};
  }
};

// Behind a layer of which each rank has some rows.
struct ReduceFromRanks : torch::autograd::Function<ReduceFromRanks> {
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/, const at::Tensor& tensor,
                            std::int64_t style) {
    return all_reduce(tensor, static_cast<Style>(style));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0], at::Tensor()};
  }
};

inline at::Tensor copy_to_ranks(const at::Tensor& tensor, Style style) {
  return CopyToRanks::apply(tensor, static_cast<std::int64_t>(style));
}
inline at::Tensor reduce_from_ranks(const at::Tensor& tensor, Style style) {
  return ReduceFromRanks::apply(tensor, static_cast<std::int64_t>(style));
}

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_DISTRIBUTED_PARALLEL_LAYERS_H_
