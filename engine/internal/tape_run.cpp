// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/internal/tape_run.h"

#include <ATen/Context.h>
#include <ATen/core/List.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/StringUtil.h>

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "reprise/engine/errors.h"
#include "reprise/engine/internal/memory.h"
#include "reprise/engine/internal/profiler_range.h"
#include "reprise/engine/internal/recomputing_scope.h"
#include "reprise/hooks/internal/hook_stack.h"

namespace reprise::engine_internal {
namespace {

using Kind = Tape::Argument::Kind;
using Why = Tape::Given::Why;

// With the strides that forward's tensor had, if what has brought it back gives others.
at::Tensor with_strides(at::Tensor tensor, const Geometry& geometry) {
  const bool is_same = std::equal(geometry.strides.begin(), geometry.strides.end(),
                                  tensor.strides().begin(), tensor.strides().end());
  if (is_same) {
    return tensor;
  }
  return at::empty_strided(geometry.sizes, geometry.strides, tensor.options()).copy_(tensor);
}

// What forward had included, and what has been included here to see operators.
c10::DispatchKeySet included_keys(const Tape::Context& context) {
  return context.keys.included_ | c10::impl::tls_local_dispatch_key_set().included_;
}

// Operators enter the dispatcher below the key where forward has recorded them.
c10::DispatchKeySet excluded_keys(const Tape::Context& context) {
  const c10::DispatchKeySet below(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::Fake);
  return context.keys.excluded_ | (c10::DispatchKeySet(c10::DispatchKeySet::FULL) - below);
}

// While alive, the thread is as the operator found it in forward.
class ContextGuard {
 public:
  explicit ContextGuard(const Tape::Context& context)
      : keys_(included_keys(context), excluded_keys(context)),
        grad_mode_(context.is_grad_enabled),
        dtype_(c10::get_default_dtype()) {
    if (c10::typeMetaToScalarType(dtype_) != context.default_dtype) {
      c10::set_default_dtype(c10::scalarTypeToTypeMeta(context.default_dtype));
    }
    at::Context& global = at::globalContext();
    if (global.deterministicAlgorithms() != context.is_deterministic) {
      is_deterministic_ = global.deterministicAlgorithms();
      global.setDeterministicAlgorithms(context.is_deterministic,
                                        global.deterministicAlgorithmsWarnOnly());
    }
  }
  ~ContextGuard() {
    if (c10::get_default_dtype() != dtype_) {
      c10::set_default_dtype(dtype_);
    }
    if (is_deterministic_) {
      at::Context& global = at::globalContext();
      global.setDeterministicAlgorithms(*is_deterministic_,
                                        global.deterministicAlgorithmsWarnOnly());
    }
  }
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;

 private:
  c10::impl::ForceDispatchKeyGuard keys_;
  c10::AutoGradMode grad_mode_;  // kernels ask for it
  caffe2::TypeMeta dtype_;
  std::optional<bool> is_deterministic_;
};

}  // namespace

TapeRun::Filled TapeRun::fill(const std::vector<bool>& wanted, std::optional<std::uint32_t> asked) {
  const bool has_grown = operators_ != tape_.operators.size() || slots_.size() != wanted.size();
  if (generation_ != tape_.generation || has_grown) {
    restart(wanted);
  }
  absl::Cleanup is_broken = [this] { generation_.reset(); };
  wanted_ = wanted;
  std::vector<std::uint32_t> slots;
  if (asked) {
    wanted_[*asked] = true;
    slots = {*asked};
  } else {
    for (std::uint32_t slot = 0; slot < wanted.size(); ++slot) {
      if (wanted[slot]) {
        slots.push_back(slot);
      }
    }
  }
  const std::vector<std::uint32_t> operators = plan(slots);
  {
    const ProfilerRange range("reprise::recompute", record_.name);
    const RegionStateGuard state(record_.state);
    const RecomputingScope recomputing;
    const at::NoGradGuard no_grad;
    const InterceptionScope unseen(nullptr);
    const RngForkGuard generators(generators_of(operators));
    for (const std::uint32_t index : operators) {
      run(index);
    }
    for (const std::uint32_t slot : slots) {
      fill_slot(slot);
    }
  }
  std::move(is_broken).Cancel();
  return std::exchange(filled_, {});
}

void TapeRun::restart(const std::vector<bool>& wanted) {
  generation_ = tape_.generation;
  operators_ = tape_.operators.size();
  work_.assign(tape_.values.size(), {});
  filled_.clear();
  slots_.clear();
  for (std::uint32_t slot = 0; slot < wanted.size(); ++slot) {
    slots_.emplace_back(tape_.slots[slot].value, slot);
  }
  std::sort(slots_.begin(), slots_.end());
  std::vector<bool> operators;
  needed_values(tape_, wanted, operators);
  for (std::size_t index = 0; index < operators.size(); ++index) {
    if (operators[index]) {
      tape_.for_each_use(tape_.operators[index],
                         [this](TapeValueId value) { ++work_[value].uses; });
    }
  }
}

bool TapeRun::is_at_hand(TapeValueId value) const {
  const auto found = tape_.given.find(value);
  return found != tape_.given.end() &&
         !(tape_.allow_mutation && found->second.why == Why::kPolicy &&
           found->second.kept.is_mutated());
}

std::vector<std::uint32_t> TapeRun::plan(const std::vector<std::uint32_t>& slots) {
  std::vector<bool> is_planned(tape_.operators.size());
  std::vector<std::uint32_t> operators;
  const auto need = [&](TapeValueId value) {
    if (value == Tape::kNone || work_[value].base.tensor.defined() || is_at_hand(value)) {
      return;
    }
    const std::uint32_t op = tape_.values[value].op;
    TORCH_INTERNAL_ASSERT(op != Tape::kNone, "a value that nothing makes");
    if (!is_planned[op]) {
      is_planned[op] = true;
      operators.push_back(op);
    }
  };
  for (const std::uint32_t slot : slots) {
    need(tape_.slots[slot].value);
  }
  for (std::size_t next = 0; next < operators.size(); ++next) {
    tape_.for_each_use(tape_.operators[operators[next]], [&](TapeValueId value) {
      ++work_[value].pass_uses;
      need(value);
    });
  }
  std::sort(operators.begin(), operators.end());
  return operators;
}

// Those that the operators draw from.
std::vector<at::Generator> TapeRun::generators_of(
    const std::vector<std::uint32_t>& operators) const {
  std::vector<at::Generator> generators;
  for (const std::uint32_t index : operators) {
    if (const std::uint32_t random = tape_.operators[index].random; random != Tape::kNone) {
      generators.push_back(tape_.random[random].generator());
    }
  }
  return generators;
}

void TapeRun::run(std::uint32_t index) {
  const Tape::Operator& op = tape_.operators[index];
  running_ = index;
  tape_.for_each_use(op, [this](TapeValueId value) {
    --work_[value].pass_uses;
    work_[value].uses -= work_[value].uses > 0 ? 1 : 0;
  });
  prepare_writes(op);
  torch::jit::Stack stack = arguments_of(op);
  if (op.random != Tape::kNone) {
    tape_.random[op.random].restore();
  }
  {
    const ContextGuard context(tape_.contexts[op.context]);
    // LibTorch returns out= arguments by reference, and pushes them when it has dropped its own.
    const torch::jit::Stack held = op.end_write > op.first_write ? stack : torch::jit::Stack();
    op.op.callBoxed(&stack);
  }
  take_results(index, stack);
  running_.reset();
}

// What an operator writes to is its own: nobody else reads it later, or it is a copy.
void TapeRun::prepare_writes(const Tape::Operator& op) {
  written_.clear();
  for (std::uint32_t i = op.first_write; i < op.end_write; ++i) {
    const TapeValueId before = tape_.writes[i].before;
    Work& work = work_[before];
    const bool is_shared = is_at_hand(before) || work.uses > 0 || work.pass_uses > 0;
    Base base = base_of(before);
    if (is_shared || !base.tensor.has_storage() || base.tensor.storage().use_count() > 1) {
      base.tensor = at::clone(base.tensor.has_storage() ? flat(base.tensor) : base.tensor);
      base.version = 0;
    } else {
      work.base = {};
    }
    written_.emplace_back(before, std::move(base));
  }
}

torch::jit::Stack TapeRun::arguments_of(const Tape::Operator& op) {
  torch::jit::Stack stack;
  const auto tensor_at = [&](std::uint32_t i) {
    const Tape::Argument& argument = tape_.arguments[i];
    return argument.kind == Kind::kConstant ? tape_.constants[argument.number]
                                            : look_at({argument.number, argument.geometry});
  };
  for (std::uint32_t i = op.first_argument; i < op.end_argument; ++i) {
    const Tape::Argument& argument = tape_.arguments[i];
    if (argument.kind == Kind::kTensorList) {
      c10::List<at::Tensor> list;
      for (std::uint32_t element = 0; element < argument.number; ++element) {
        list.push_back(c10::IValue(tensor_at(++i)).toTensor());
      }
      stack.emplace_back(std::move(list));
    } else if (argument.kind == Kind::kOptionalTensorList) {
      c10::List<std::optional<at::Tensor>> list;
      for (std::uint32_t element = 0; element < argument.number; ++element) {
        at::Tensor tensor = c10::IValue(tensor_at(++i)).toTensor();
        list.push_back(tensor.defined() ? std::optional(std::move(tensor)) : std::nullopt);
      }
      stack.emplace_back(std::move(list));
    } else {
      stack.push_back(tensor_at(i));
    }
  }
  return stack;
}

void TapeRun::take_results(std::uint32_t index, const torch::jit::Stack& stack) {
  const Tape::Operator& op = tape_.operators[index];
  std::uint32_t ordinal = 0;
  std::uint32_t next = op.first_made;
  for (const c10::IValue& result : stack) {
    for_each_tensor(result, [&](const at::Tensor& tensor) {
      if (next == op.end_made || tape_.made[next].ordinal != ordinal++) {
        return;
      }
      const Tape::Made& made = tape_.made[next++];
      if (!(Geometry(tensor) == tape_.geometries[made.geometry])) {
        throw DeterminismError(c10::str("[checkpoint] region '", record_.name, "': ", words(index),
                                        " gives ", TensorMetadata(tensor).to_string(),
                                        " in the recomputation, and gave another shape, ",
                                        "dtype or layout in forward"));
      }
      work_[made.value].base = {tensor, 0, version_of(tensor)};
    });
  }
  for (std::size_t i = 0; i < written_.size(); ++i) {
    const Tape::Write& write = tape_.writes[op.first_write + i];
    if (write.after != Tape::kNone) {
      written_[i].second.version = version_of(written_[i].second.tensor);
      work_[write.after].base = std::move(written_[i].second);
    }
  }
  written_.clear();
  fill_slots_and_free(op);
}

void TapeRun::fill_slots_and_free(const Tape::Operator& op) {
  const auto finish = [this](TapeValueId value) {
    fill_slots_of(value);
    free_if_unused(value);
  };
  for (std::uint32_t i = op.first_made; i < op.end_made; ++i) {
    finish(tape_.made[i].value);
  }
  for (std::uint32_t i = op.first_write; i < op.end_write; ++i) {
    if (tape_.writes[i].after != Tape::kNone) {
      finish(tape_.writes[i].after);
    }
  }
  tape_.for_each_use(op, [this](TapeValueId value) { free_if_unused(value); });
}

void TapeRun::free_if_unused(TapeValueId value) {
  if (work_[value].uses == 0 && work_[value].pass_uses == 0) {
    work_[value].base = {};
  }
}

at::Tensor TapeRun::look_at(const Tape::Tensor& tensor) {
  const auto written = std::find_if(written_.begin(), written_.end(),
                                    [&](const auto& entry) { return entry.first == tensor.value; });
  const Base& base = written == written_.end() ? base_of(tensor.value) : written->second;
  return tensor.geometry == Tape::kNone
             ? base.tensor
             : tape_.geometries[tensor.geometry].look_at(base.tensor, base.shift);
}

const TapeRun::Base& TapeRun::base_of(TapeValueId value) {
  Base& base = work_[value].base;
  if (!base.tensor.defined()) {
    base = load(value);
  } else if (version_of(base.tensor) != base.version && !record_.allow_external_mutation) {
    fail_mutated(c10::str(TensorMetadata(base.tensor).to_string(),
                          ", which has been changed in place since it was recomputed"));
  }
  return base;
}

TapeRun::Base TapeRun::load(TapeValueId value) const {
  const auto found = tape_.given.find(value);
  TORCH_INTERNAL_ASSERT(found != tape_.given.end(), "a value that nothing has made");
  Tape::Given& given = found->second;
  if (given.geometry == Tape::kNone) {
    const at::Tensor tensor = load_tensor(given);
    return {tensor, 0, version_of(tensor)};
  }
  const Geometry& geometry = tape_.geometries[given.geometry];
  const at::Tensor tensor = with_strides(load_tensor(given), geometry);
  return {tensor, tensor.storage_offset() - geometry.offset, version_of(tensor)};
}

at::Tensor TapeRun::load_tensor(Tape::Given& given) const {
  const bool may_change = record_.allow_external_mutation;
  if (given.lost && !may_change) {
    fail_mutated(c10::str("a tensor from outside the region, ", *given.lost));
  }
  if (given.input) {
    at::Tensor tensor = given.input->restore();
    const auto change =
        given.input->is_packed() ? std::nullopt : given.input->in_place_change(tensor);
    if (change && !may_change) {
      fail_mutated(c10::str("a tensor from outside the region, ", *change));
    }
    return tensor;
  }
  const KeptResult& kept = given.kept;
  if (given.why == Why::kPolicy && kept.is_mutated()) {
    fail_kept_mutated(kept);
  }
  const bool is_checked = given.why == Why::kOutside || given.why == Why::kOutOfSight;
  if (is_checked && kept.is_mutated() && !may_change) {
    fail_mutated(c10::str("a tensor from outside the region, ", lost_words(given)));
  }
  return kept.host     ? kept.host->restore()
         : kept.packed ? kept.packed->call_unpack_hook()
                       : kept.alias;
}

void TapeRun::fill_slots_of(TapeValueId value) {
  auto next = std::lower_bound(slots_.begin(), slots_.end(), std::pair(value, std::uint32_t{0}));
  for (; next != slots_.end() && next->first == value; ++next) {
    fill_slot(next->second);
  }
}

void TapeRun::fill_slot(std::uint32_t slot) {
  if (!wanted_[slot]) {
    return;
  }
  wanted_[slot] = false;
  at::Tensor tensor = look_at(tape_.slots[slot]);
  if (tape_.slots[slot].geometry == Tape::kNone) {
    tensor = hooks_internal::detached_alias(tensor);
  }
  check_contents(slot, tensor);
  const std::int64_t version = version_of(tensor);
  filled_.emplace_back(slot, RecomputedTensor{std::move(tensor), version});
  const TapeValueId value = tape_.slots[slot].value;
  if (is_at_hand(value)) {
    free_if_unused(value);
  }
}

void TapeRun::check_contents(std::uint32_t slot, const at::Tensor& tensor) const {
  if (tape_.slots[slot].is_written_since) {
    return;
  }
  if (auto difference =
          record_.slots[slot].difference_of_contents(tensor, record_.check_options())) {
    throw DeterminismError(c10::str("[checkpoint] region '", record_.name, "': slot ", slot,
                                    " (result of ", record_.slots[slot].producer(),
                                    ") is not recomputed as it was saved: ", *difference));
  }
}

void TapeRun::fail_mutated(const std::string& what) const {
  throw MutationError(c10::str(
      "[checkpoint] region '", record_.name, "': ", running_ ? words(*running_) : "a saved tensor",
      running_ ? " reads " : " is ", what,
      ". Change a clone instead, or set allow_external_mutation to accept the new values"));
}

void TapeRun::fail_kept_mutated(const KeptResult& kept) const {
  throw MutationError(c10::str(
      "[checkpoint] region '", record_.name, "': a tensor that the policy keeps has been mutated: ",
      TensorMetadata(kept.alias).to_string(), ", kept at version ", kept.version,
      ", is now at version ", version_of(kept.alias),
      ". Change a clone instead, or set allow_cache_entry_mutation to compute it again"));
}

std::string TapeRun::words(std::uint32_t index) const {
  const Tape::Operator& op = tape_.operators[index];
  return c10::str("operator ", op.ordinal, ", ", op.op.operator_name());
}

}  // namespace reprise::engine_internal
