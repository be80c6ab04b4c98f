// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/effects/replay_effects.h"

#include <ATen/core/List.h>
#include <ATen/ops/clone.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "reprise/engine/checks/saved_tensor_record.h"
#include "reprise/engine/errors.h"
#include "reprise/engine/operators/autograd_facts.h"
#include "reprise/engine/operators/operator_facts.h"
#include "reprise/engine/operators/storage_id.h"

namespace reprise::engine_internal {
namespace {

// Undefined for a leaf that requires no gradient. Read from the tensor's own metadata, because
// Tensor::grad_fn() may rebuild a view's history.
torch::autograd::Edge edge_of(const at::Tensor& tensor) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  return meta == nullptr ? torch::autograd::Edge()
                         : torch::autograd::Edge(meta->grad_fn_, meta->output_nr_);
}

// Returns the argument, a tensor or a list of tensors, with each defined tensor replaced by
// replace(its number, tensor).
template <class Replace>
c10::IValue replace_tensors(const c10::IValue& argument, const Replace& replace) {
  if (argument.isTensor()) {
    return argument.toTensor().defined() ? replace(0U, argument.toTensor()) : argument.toTensor();
  }
  const c10::List<c10::IValue> elements = argument.toList();
  c10::List<c10::IValue> replaced(elements.elementType());
  std::uint32_t number = 0;
  for (const c10::IValue& each : argument.toListRef()) {
    const bool is_defined = each.isTensor() && each.toTensor().defined();
    replaced.push_back(is_defined ? c10::IValue(replace(number++, each.toTensor())) : each);
  }
  return replaced;
}

}  // namespace

void leave_out(const OperatorCall& call) {
  const OperatorTraits& traits = call.traits;
  std::vector<c10::IValue> results;
  results.reserve(traits.result_arguments.size());
  for (const auto& argument : traits.result_arguments) {
    results.push_back(call.argument(*argument));
  }
  torch::jit::drop(call.stack, call.op.schema().arguments().size());
  for (c10::IValue& result : results) {
    call.stack.push_back(std::move(result));
  }
}

void ReplayEffects::adopt(const at::Tensor& tensor) {
  if (tensor.defined()) {
    adopt(table_.add(tensor));
  }
}

void ReplayEffects::adopt(MemoryTable::WeakStorage storage) {
  adopt(table_.add(std::move(storage)));
}

void ReplayEffects::adopt(MemoryId memory) {
  Memory& adopted = known_.grow_to(memory);
  adopted.is_inside = true;
  adopted.is_adopted = true;
}

void ReplayEffects::disown(StorageId memory) {
  Memory& disowned = known_.grow_to(table_.find(memory));
  disowned.is_inside = false;
  disowned.is_disowned = true;
}

void ReplayEffects::intercept(const OperatorCall& call) {
  settle();
  const OperatorTraits& traits = call.traits;
  if (traits.undeclared) {
    give_statistics(call);
  }
  const std::vector<std::uint32_t> outside = outside_arguments(call);
  if (outside.empty()) {
    note_writes_to_freed(call);
    run_inside(call);
    return;
  }
  const auto arguments = call.arguments();
  for (const std::uint32_t index : outside) {
    for_each_tensor(arguments[index], [&](const at::Tensor& tensor) {
      Memory& target = known_.grow_to(table_.add(tensor));
      if (!target.is_inside) {
        target.is_left_out = true;
        keep_untouched(tensor);
        if (target.is_disowned) {
          memory_.copy_before_write(tensor);
        } else {
          memory_.note_write(traits, tensor);
        }
      }
    });
  }
  const bool may_leave_out = std::all_of(
      traits.written_arguments.begin(), traits.written_arguments.end(),
      [&](std::uint32_t index) { return may_leave_out_write(arguments[index], traits); });
  // A random operator has to run, so that the generator advances.
  if (traits.returns_only_arguments && may_leave_out && !traits.is_random) {
    leave_out(call);
  } else {
    run_elsewhere(call, outside);
  }
}

// Filled again, it holds what forward left there, at the version that forward left.
void ReplayEffects::note_writes_to_freed(const OperatorCall& call) {
  if (memory_.freed().empty()) {
    return;
  }
  for (const std::uint32_t index : call.traits.written(call.arguments())) {
    for_each_tensor(call.argument(index), [&](const at::Tensor& tensor) {
      if (memory_.is_freed(storage_id_of(tensor))) {
        keep_untouched(tensor);
        memory_.note_write(call.traits, tensor);
      }
    });
  }
}

void ReplayEffects::settle() {
  for (const Untouched& untouched : untouched_) {
    const at::Tensor& tensor = untouched.tensor;
    if (version_of(tensor) > untouched.version) {
      c10::VariableVersion counter = tensor.unsafeGetTensorImpl()->version_counter();
      counter.set_version(untouched.version);
      memory_.note_counted_write(tensor);
    }
    if (edge_of(tensor) != untouched.edge) {
      torch::autograd::impl::set_gradient_edge(tensor, untouched.edge);
    }
  }
  untouched_.clear();
}

bool ReplayEffects::is_outside(const at::Tensor& tensor, const OperatorTraits& traits) {
  const Memory known = find(storage_id_of(tensor));
  if (known.is_inside || known.is_disowned) {
    return !known.is_inside;
  }
  // A tensor that forward has written has a version. One without was made by the replay, outside
  // the dispatcher (see Note [Wrapped memory]).
  const bool counts_writes = traits.is_aten && !traits.undeclared;
  // c10d's operators count none.
  const bool reads_non_owning =
      traits.transfer != Transfer::kNone && tensor.has_storage() && is_non_owning(tensor);
  const bool is_made_here = (counts_writes || reads_non_owning) && is_unwritten(tensor);
  if (is_made_here) {
    known_.grow_to(table_.add(tensor)).is_inside = true;
  }
  return !is_made_here;
}

std::vector<std::uint32_t> ReplayEffects::outside_arguments(const OperatorCall& call) {
  const OperatorTraits& traits = call.traits;
  std::vector<std::uint32_t> outside;
  if (traits.written_arguments.empty()) {
    return outside;
  }
  const auto arguments = call.arguments();
  for (const std::uint32_t index : traits.written(arguments)) {
    bool is_any_outside = false;
    for_each_tensor(arguments[index], [&](const at::Tensor& tensor) {
      is_any_outside = is_outside(tensor, traits) || is_any_outside;
    });
    if (is_any_outside) {
      outside.push_back(index);
    }
  }
  return outside;
}

bool ReplayEffects::may_leave_out_write(const c10::IValue& argument, const OperatorTraits& traits) {
  bool may = true;
  for_each_tensor(argument, [&](const at::Tensor& tensor) {
    may = may && is_outside(tensor, traits) && !memory_.is_filled(storage_id_of(tensor));
  });
  return may;
}

void ReplayEffects::run_inside(const OperatorCall& call) {
  const OperatorTraits& traits = call.traits;
  if (traits.is_view) {
    call.run();
    return;
  }
  if (traits.is_host_read && replay_host_read(call)) {
    return;
  }
  if (memory_.hides_any()) {
    show_own_memory(call);
  }
  const StorageIdList targets = has_unset_ ? written_memory(call) : StorageIdList();
  StorageIdList arguments;
  for (const c10::IValue& argument : call.arguments()) {
    append_value_ids(argument, arguments);
  }
  call.run();
  if (watch_ != nullptr) {
    watch_->note_run();
  }
  awaits_write_ = false;
  for (const StorageId memory : targets) {
    if (const MemoryId target = table_.find(memory); known_.contains(target)) {
      known_[target].is_unset = false;
    }
  }
  for (const c10::IValue& result : call.results()) {
    for_each_tensor(result, [&](const at::Tensor& tensor) {
      note_made(call, arguments, table_.add(tensor));
      if (c10::StorageImpl* const values =
              storage_of(tensor) == nullptr ? values_of_sparse(tensor) : nullptr) {
        note_made(call, arguments, table_.add(weak_storage_of(*values)));
      }
    });
  }
}

void ReplayEffects::note_made(const OperatorCall& call, const StorageIdList& arguments,
                              MemoryId memory) {
  if (std::find(arguments.begin(), arguments.end(), table_[memory].id) != arguments.end()) {
    return;
  }
  Memory& made = known_.grow_to(memory);
  made.is_inside = true;
  made.is_unset = call.traits.leaves_memory_as_it_is;
  has_unset_ = has_unset_ || made.is_unset;
}

// As forward found them.
void ReplayEffects::give_statistics(const OperatorCall& call) const {
  for (const std::uint32_t index : call.traits.read_statistics(call.arguments())) {
    const at::Tensor read = watch_ == nullptr ? at::Tensor() : watch_->before(index, 0);
    if (read.defined()) {
      call.argument(index) = read;
    }
  }
}

// On memory of the replay's own, or on copies.
void ReplayEffects::run_elsewhere(const OperatorCall& call,
                                  const std::vector<std::uint32_t>& outside) {
  const OperatorTraits& traits = call.traits;
  absl::flat_hash_map<std::uint32_t, c10::IValue> originals;
  for (const std::uint32_t index : outside) {
    c10::IValue replaced =
        replace_tensors(call.argument(index), [&](std::uint32_t element, const at::Tensor& tensor) {
          return elsewhere(call, index, element, tensor);
        });
    originals[index] = std::exchange(call.argument(index), std::move(replaced));
  }
  run_inside(call);
  const std::size_t first = call.stack.size() - traits.result_arguments.size();
  for (std::size_t i = 0; i < traits.result_arguments.size(); ++i) {
    const auto& argument = traits.result_arguments[i];
    if (argument && originals.contains(*argument)) {
      call.stack[first + i] = originals[*argument];
    }
  }
}

at::Tensor ReplayEffects::elsewhere(const OperatorCall& call, std::uint32_t argument,
                                    std::uint32_t element, const at::Tensor& tensor) {
  if (!is_outside(tensor, call.traits)) {
    return tensor;
  }
  return memory_.is_filled(storage_id_of(tensor)) ? memory_.seen(tensor)
                                                  : copy_for_write(call, argument, element, tensor);
}

void ReplayEffects::show_own_memory(const OperatorCall& call) {
  for (const std::uint32_t index : call.traits.written(call.arguments())) {
    for_each_tensor(call.argument(index), [this](const at::Tensor& tensor) {
      memory_.note_write_inside(storage_id_of(tensor));
    });
  }
  for (std::size_t index = 0; index < call.op.schema().arguments().size(); ++index) {
    c10::IValue& argument = call.argument(index);
    bool is_hidden = false;
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      is_hidden = is_hidden || memory_.hides(tensor);
    });
    if (is_hidden) {
      argument = replace_tensors(argument, [this](std::uint32_t, const at::Tensor& tensor) {
        return memory_.seen(tensor);
      });
    }
  }
}

// The contents before forward's operator, if its other results depend on them.
at::Tensor ReplayEffects::copy_for_write(const OperatorCall& call, std::uint32_t argument,
                                         std::uint32_t element, const at::Tensor& tensor) const {
  const at::Tensor before = watch_ == nullptr ? at::Tensor() : watch_->before(argument, element);
  const bool is_ahead = watch_ != nullptr && watch_->is_ahead();
  const bool is_as_found = call.traits.returns_only_arguments || is_ahead;
  if (!before.defined() && !call.traits.ignores_targets && !is_as_found) {
    throw MutationError(c10::str(
        "[checkpoint] region '", region_, "': ", call.op.operator_name(),
        " writes to a tensor from outside the region, ", TensorMetadata(tensor).to_string(),
        ", and has results that depend on what it found there, which is not known: forward did not "
        "run it, or CheckpointOptions::watch_operators is off. Leave it on"));
  }
  return at::clone(before.defined() ? before : tensor);
}

bool ReplayEffects::replay_host_read(const OperatorCall& call) {
  StorageIdList memory;
  for (const c10::IValue& argument : call.arguments()) {
    append_storage_ids(argument, memory);
  }
  const bool all_outside = std::none_of(memory.begin(), memory.end(),
                                        [this](StorageId each) { return find(each).is_inside; });
  const auto* host_read = watch_ != nullptr && !memory.empty() && all_outside
                              ? watch_->host_read_of_forward()
                              : nullptr;
  if (host_read != nullptr) {
    torch::jit::drop(call.stack, call.op.schema().arguments().size());
    for (const c10::IValue& result : *host_read) {
      call.stack.push_back(result);
    }
  }
  return host_read != nullptr;
}

void ReplayEffects::keep_untouched(const at::Tensor& tensor) {
  if (tensor.is_inference()) {
    return;
  }
  untouched_.push_back({tensor, version_of(tensor), edge_of(tensor)});
  if (is_view(tensor)) {
    const at::Tensor base(tensor._base());
    untouched_.push_back({base, version_of(base), edge_of(base)});
  }
}

}  // namespace reprise::engine_internal
