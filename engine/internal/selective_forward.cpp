// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/internal/selective_forward.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "reprise/hooks/internal/forwarding_engine.h"
#include "reprise/hooks/internal/hook_stack.h"
#include "reprise/policies/name_scope.h"

namespace reprise::engine_internal {
namespace {

using Replay = TracedOperator::Replay;

bool is_save(CheckpointPolicy policy) {
  return policy == CheckpointPolicy::MUST_SAVE || policy == CheckpointPolicy::PREFER_SAVE;
}

bool is_offload(CheckpointPolicy policy) {
  return policy == CheckpointPolicy::MUST_CPU_OFFLOAD ||
         policy == CheckpointPolicy::PREFER_CPU_OFFLOAD;
}

bool is_cast_of_parameter(const OperatorCall& call) {
  if (call.op.schema().name() != "aten::_to_copy") {
    return false;
  }
  const c10::IValue& self = call.argument(0);
  return self.isTensor() && self.toTensor().is_leaf() && self.toTensor().requires_grad() &&
         !self.toTensor().is_view();
}

std::uint64_t fingerprint_of(const c10::IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined() || tensor.is_nested()) {
      return 1;
    }
    return absl::HashOf(tensor.scalar_type(), absl::MakeConstSpan(tensor.sizes()));
  }
  if (value.isInt()) {
    return absl::HashOf(value.toInt());
  }
  if (value.isDouble()) {
    return absl::HashOf(value.toDouble());
  }
  if (value.isBool()) {
    return absl::HashOf(value.toBool());
  }
  if (value.isString()) {
    return absl::HashOf(value.toStringView());
  }
  std::uint64_t hash = 2;
  if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) {
      hash = absl::HashOf(hash, fingerprint_of(element));
    }
  }
  return hash;
}

// A dropout of probability 0 draws nothing (pytorch#187985).
bool draws(const OperatorCall& call) {
  const auto& arguments = call.op.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i].name();
    if ((name == "dropout_p" || name == "p") && call.argument(i).isDouble()) {
      return call.argument(i).toDouble() != 0;
    }
  }
  return true;
}

std::optional<RngState> state_before(const OperatorCall& call) {
  std::optional<at::Device> device;
  for (const c10::IValue& argument : call.arguments()) {
    if (argument.isGenerator() && argument.toGenerator().defined()) {
      return RngState::capture(argument.toGenerator());
    }
    if (argument.isDevice()) {
      device = argument.toDevice();
    }
    for_each_tensor(argument,
                    [&](const at::Tensor& tensor) { device = device.value_or(tensor.device()); });
  }
  const at::Device where = device.value_or(at::Device(at::kCPU));
  return RngState::capture(where.is_cpu() ? at::detail::getDefaultCPUGenerator()
                                          : at::globalContext().defaultGenerator(where));
}

std::optional<std::vector<TracedOperator::Result>> describe_results(
    c10::ArrayRef<c10::IValue> results) {
  std::vector<TracedOperator::Result> found;
  for (const c10::IValue& result : results) {
    if (result.isList()) {
      return std::nullopt;
    }
    if (!result.isTensor()) {
      found.push_back({std::nullopt, result});
      continue;
    }
    const at::Tensor& tensor = result.toTensor();
    if (!tensor.defined()) {
      found.push_back({});
    } else if (tensor.layout() == at::kStrided && !tensor.is_nested() && !tensor.is_quantized()) {
      found.push_back({TensorMetadata(tensor), {}});
    } else {
      return std::nullopt;
    }
  }
  return found;
}

KeptResult kept_result(const at::Tensor& tensor, bool offload) {
  if (offload && !tensor.is_cpu()) {
    return {at::Tensor(), 0, hooks_internal::HostCopy(tensor, /*pin_memory=*/true)};
  }
  at::Tensor alias = hooks_internal::detached_alias(tensor);
  const std::int64_t version = alias.is_inference() ? 0 : alias._version();
  return {std::move(alias), version, std::nullopt};
}

// Autograd counts the write when the operator has returned.
std::int64_t version_after_write(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : tensor._version() + 1;
}

}  // namespace

bool is_untraced(const OperatorCall& call, const OperatorTraits& traits) {
  return traits.is_bookkeeping || is_cast_of_parameter(call);
}

std::uint64_t fingerprint_of_arguments(const OperatorCall& call) {
  std::uint64_t hash = 0;
  for (const c10::IValue& argument : call.arguments()) {
    hash = absl::HashOf(hash, fingerprint_of(argument));
  }
  return hash;
}

SelectiveForward::SelectiveForward(OperatorTrace& trace, std::shared_ptr<Policy> policy,
                                   std::string region, bool preserves_rng,
                                   OperatorInterceptor* next)
    : trace_(trace),
      policy_(std::move(policy)),
      region_(std::move(region)),
      preserves_rng_(preserves_rng),
      next_(next),
      backward_(hooks_internal::current_backward()) {}

void SelectiveForward::intercept(const OperatorCall& call) {
  const OperatorTraits& traits = OperatorTraits::of(call.op);
  MemoryList arguments;
  for (const c10::IValue& argument : call.arguments()) {
    append_memory(argument, arguments);
  }
  if (is_untraced(call, traits) || hooks_internal::current_backward() != backward_) {
    if (!traits.is_view) {
      std::for_each(arguments.begin(), arguments.end(), [this](Memory m) { trace_.need(m); });
    }
    pass_on(call, next_);
    return;
  }
  TracedOperator op = describe(call, traits, arguments);
  const auto given = call.arguments().vec();
  pass_on(call, next_);
  note_results(call, traits, op, arguments);
  if (!op.is_view && (!op.made.empty() || !op.written.empty())) {
    op.decision = ask(call, given);
    if (!op.written.empty()) {
      tie(call, op, traits);
    } else if (is_save(op.decision) || is_offload(op.decision)) {
      keep(call, op);
    }
  }
  if (op.replay == Replay::kRun && !op.is_view) {
    for (const ValueId id : op.inputs) {
      const bool is_target =
          std::find(op.written.begin(), op.written.end(), id) != op.written.end();
      trace_.value(id).is_read = trace_.value(id).is_read || !is_target;
    }
  }
  trace_.operators.push_back(std::move(op));
}

TracedOperator SelectiveForward::describe(const OperatorCall& call, const OperatorTraits& traits,
                                          const MemoryList& arguments) const {
  TracedOperator op;
  op.name = &call.op.operator_name();
  op.arguments = fingerprint_of_arguments(call);
  if (traits.is_random && preserves_rng_ && draws(call)) {
    op.rng = state_before(call);
  }
  for (const Memory memory : arguments) {
    if (const auto id = trace_.value_in(memory)) {
      op.inputs.push_back(*id);
    }
  }
  bool writes_outside = false;
  for (const std::uint32_t index : traits.written(call.arguments())) {
    for_each_tensor(call.argument(index), [&](const at::Tensor& tensor) {
      const auto id = trace_.value_in(memory_of(tensor));
      writes_outside = writes_outside || !id;
      if (id) {
        op.written.push_back(*id);
      }
    });
  }
  const bool writes_besides = !op.written.empty() && !traits.returns_only_arguments;
  op.is_view = traits.is_view;
  op.is_root = writes_outside || writes_besides || traits.tells_host || traits.is_view;
  return op;
}

void SelectiveForward::note_results(const OperatorCall& call, const OperatorTraits& traits,
                                    TracedOperator& op, const MemoryList& arguments) {
  const auto index = static_cast<std::uint32_t>(trace_.operators.size());
  const auto results = torch::jit::last(call.stack, call.op.schema().returns().size());
  op.results.emplace();
  for (std::uint32_t i = 0; i < results.size(); ++i) {
    for_each_tensor(results[i], [&](const at::Tensor& tensor) {
      const Memory memory = memory_of(tensor);
      if (std::find(arguments.begin(), arguments.end(), memory) == arguments.end()) {
        op.made.push_back(trace_.make_value(memory, index, i));
      } else if (!traits.result_arguments[i]) {
        op.is_view = op.is_root = true;  // that its schema does not declare, as _unsafe_view
      }
    });
  }
  op.results = describe_results(results);
}

CheckpointPolicy SelectiveForward::ask(const OperatorCall& call,
                                       std::span<const c10::IValue> arguments) {
  const auto results = torch::jit::last(call.stack, call.op.schema().returns().size());
  PolicyContext::Call question;
  question.op = &call.op;
  question.arguments = arguments;
  question.outputs = {results.data(), results.size()};
  question.scopes = NameScope::current();
  question.region = region_;
  question.ordinal = static_cast<std::int64_t>(trace_.operators.size());
  const at::NoGradGuard no_grad;
  return policy_->decide(PolicyContext(question));
}

void SelectiveForward::keep(const OperatorCall& call, TracedOperator& op) {
  if (!op.results) {
    return;
  }
  std::vector<KeptResult> kept;
  for (const c10::IValue& result : torch::jit::last(call.stack, op.results->size())) {
    const bool is_defined = result.isTensor() && result.toTensor().defined();
    kept.push_back(is_defined ? kept_result(result.toTensor(), is_offload(op.decision))
                              : KeptResult());
  }
  op.replay = Replay::kServe;
  trace_.mutable_kept()[static_cast<std::uint32_t>(trace_.operators.size())] = std::move(kept);
}

void SelectiveForward::tie(const OperatorCall& call, TracedOperator& op,
                           const OperatorTraits& traits) {
  const auto index = static_cast<std::uint32_t>(trace_.operators.size());
  OperatorTrace::Value& value = trace_.value(op.written[0]);
  const bool is_alone = op.written.size() == 1 && op.made.empty() && traits.returns_only_arguments;
  const bool may_tie =
      is_alone && !value.is_read && op.decision != CheckpointPolicy::MUST_RECOMPUTE;
  const auto kept = trace_.mutable_kept().find(value.creator);
  if (may_tie && kept != trace_.mutable_kept().end()) {
    KeptResult& result = kept->second[value.result];
    if (result.alias.defined()) {
      result.version = version_after_write(result.alias);
      op.replay = Replay::kSkip;
    }
  } else if (may_tie && (is_save(op.decision) || is_offload(op.decision))) {
    const c10::IValue& written = torch::jit::peek(call.stack, 0, 1);
    if (written.isTensor() && keep_as_result(written.toTensor(), value)) {
      op.replay = Replay::kSkip;
    }
  }
  for (const ValueId id : op.written) {
    trace_.value(id).writers.push_back(index);
  }
}

bool SelectiveForward::keep_as_result(const at::Tensor& written, OperatorTrace::Value& value) {
  TracedOperator& creator = trace_.operators[value.creator];
  const bool is_whole = creator.results && creator.results->size() == 1 &&
                        (*creator.results)[0].tensor &&
                        (*creator.results)[0].tensor->matches_shape(written);
  if (!is_whole || creator.decision == CheckpointPolicy::MUST_RECOMPUTE || creator.is_root) {
    return false;
  }
  creator.replay = Replay::kServe;
  KeptResult kept = kept_result(written, /*offload=*/false);
  kept.version = version_after_write(kept.alias);
  trace_.mutable_kept()[value.creator] = {std::move(kept)};
  for (const std::uint32_t writer : value.writers) {
    trace_.operators[writer].replay = Replay::kSkip;
  }
  return true;
}

}  // namespace reprise::engine_internal
