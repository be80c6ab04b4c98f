// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/selective/selective_forward.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "reprise/engine/operators/operator_facts.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/hooks/seam/forwarding_engine.h"

namespace reprise::engine_internal {
namespace {

// The shapes of the tensors that the operator writes to; out= may change them.
std::vector<std::vector<std::int64_t>> shapes_written(std::span<const c10::IValue> arguments,
                                                      const OperatorTraits& traits) {
  std::vector<std::vector<std::int64_t>> shapes;
  if (!traits.undeclared) {
    for (const std::uint32_t index : traits.written_arguments) {
      for_each_tensor(arguments[index],
                      [&](const at::Tensor& tensor) { shapes.push_back(tensor.sizes().vec()); });
    }
  }
  return shapes;
}

}  // namespace

SelectiveForward::SelectiveForward(TraceRecorder& recorder, std::shared_ptr<Policy> policy,
                                   const std::string& region, bool preserves_rng,
                                   OperatorInterceptor* next, PolicyRegion* enclosing)
    : recorder_(recorder),
      policy_region_(std::move(policy), region, recorder, enclosing),
      preserves_rng_(preserves_rng),
      next_(next),
      backward_(hooks_internal::current_backward()) {}

void SelectiveForward::intercept(const OperatorCall& call) {
  const OperatorTraits& traits = call.traits;
  policy_region_.start_call();
  settle();
  recorder_.note_versions();
  StorageIdList arguments;
  for (const c10::IValue& argument : call.arguments()) {
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      arguments.push_back(storage_id_of(tensor));
      recorder_.note_argument(tensor);
    });
  }
  if (is_untraced(call) || is_in_backward_inside(backward_)) {
    run_hidden(call, arguments);
    return;
  }
  TracedOperator op = describe(call, arguments);
  if (const at::Generator generator = generator_of(call); preserves_rng_ && generator.defined()) {
    op.draw = draws_.begin(generator);
  }
  const auto arguments_now = call.arguments();
  const absl::InlinedVector<c10::IValue, 8> given(arguments_now.begin(), arguments_now.end());
  const auto shapes = shapes_written(given, traits);
  if (traits.is_inplace_view) {
    const at::Tensor& reshaped = given[0].toTensor();
    if (const auto id = recorder_.value_in(storage_id_of(reshaped))) {
      recorder_.prepare_reshape(*id, reshaped);
    }
  }
  pass_on(call, next_);
  if (op.draw && !traits.is_random && op.draw->before.is_current()) {
    op.draw.reset();
  }
  if (op.draw) {
    draws_.end(*op.draw);
  }
  op.is_resizing = !shapes.empty() && shapes_written(given, traits) != shapes;
  op.is_root = op.is_root || op.is_resizing;
  if (traits.is_inplace_view) {
    recorder_.note_reshape(given[0].toTensor());
  }
  recorder_.add(std::move(op), call.results(), traits.result_arguments, arguments);
  const TracedOperator& added = recorder_.last();
  if (!added.is_view && (!added.made.empty() || !added.written.empty())) {
    policy_region_.decide(call, given);
  }
  recorder_.finish_last(call.results());
}

// Replays run it again, whatever the policy answers.
void SelectiveForward::run_hidden(const OperatorCall& call, const StorageIdList& arguments) {
  if (!call.traits.is_view) {
    std::for_each(arguments.begin(), arguments.end(), [this](StorageId m) { recorder_.need(m); });
  }
  if (!call.traits.is_bookkeeping) {
    for (const std::uint32_t index : call.traits.written(call.arguments())) {
      for_each_tensor(call.argument(index), [&](const at::Tensor& tensor) {
        if (const auto id = recorder_.value_in(storage_id_of(tensor))) {
          recorder_.prepare_hidden_write(*id, tensor);
        }
      });
    }
  }
  pass_on(call, next_);
}

TracedOperator SelectiveForward::describe(const OperatorCall& call,
                                          const StorageIdList& arguments) const {
  const OperatorTraits& traits = call.traits;
  TracedOperator op;
  op.name = &call.op.operator_name();
  op.arguments = fingerprint_of_arguments(call);
  for (const StorageId memory : arguments) {
    if (const auto id = recorder_.value_in(memory)) {
      op.inputs.push_back(*id);
    }
  }
  op.has_other_owners = InterceptionScope::current() != this;
  op.is_view = traits.is_view;
  if (traits.is_inplace_view) {
    op.is_root = true;
    return op;
  }
  op.is_constant = traits.is_factory;
  op.is_wait = traits.transfer == Transfer::kWait;
  op.is_in_flight = traits.gives_in_flight;
  note_writes(call, arguments, op);
  const bool writes_besides = !op.written.empty() && !traits.returns_only_arguments;
  const bool is_transfer = traits.transfer != Transfer::kNone && !op.is_wait;
  op.is_root = op.is_root || writes_besides || traits.is_host_read || traits.is_view || is_transfer;
  return op;
}

void SelectiveForward::note_writes(const OperatorCall& call, const StorageIdList& arguments,
                                   TracedOperator& op) const {
  const OperatorTraits& traits = call.traits;
  absl::InlinedVector<const at::Tensor*, 2> targets;
  for (const std::uint32_t index : traits.written(call.arguments())) {
    for_each_tensor(call.argument(index), [&](const at::Tensor& tensor) {
      const auto id = recorder_.value_in(storage_id_of(tensor));
      op.is_root = op.is_root || !id;  // an effect
      if (id) {
        op.written.push_back(*id);
        targets.push_back(&tensor);
      }
    });
  }
  op.is_lone_write = op.written.size() == 1 && !op.is_root && traits.returns_only_arguments &&
                     traits.result_arguments.size() == 1 &&
                     call.argument(*traits.result_arguments[0]).isTensor();
  // It takes no other tensor than the one that it writes to.
  op.is_constant =
      op.is_constant || (op.is_lone_write && arguments.size() == 1 && !traits.is_random);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    recorder_.prepare_write(op.written[i], *targets[i], op.is_lone_write);
  }
}

}  // namespace reprise::engine_internal
