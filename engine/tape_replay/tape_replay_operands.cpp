// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The arguments and results of the operators that a replay runs.
#include <ATen/core/List.h>
#include <ATen/ops/clone.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "reprise/engine/errors.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/tape_replay/tape_replay.h"
#include "reprise/hooks/seam/owner_count.h"

namespace reprise::engine_internal {
namespace {

using Kind = Tape::Argument::Kind;
using Why = Tape::Given::Why;

}  // namespace

// An operator writes to memory of its own: no later operator reads it, or it is a copy. But a value
// in flight arrives in its own memory only.
void TapeReplay::prepare_writes(const Tape::Operator& op) {
  written_.clear();
  for (const Tape::Write& write : tape_.writes_of(op)) {
    const TapeValueId before = write.before;
    const auto given = tape_.given.find(before);
    const bool is_unset = given != tape_.given.end() && given->second.why == Why::kUnset;
    const bool is_shared = !is_unset && (is_available(before) || is_used_later(before));
    Base base = base_of(before);
    const bool may_be_written = !is_shared && base.tensor.has_storage() &&
                                hooks_internal::storage_owner_count(base.tensor) == 1;
    if (may_be_written) {
      work_[before].base = {};
    } else if (op.transfer != Transfer::kWait) {
      base.tensor = at::clone(base.tensor.has_storage() ? flat(base.tensor) : base.tensor);
      base.version = 0;
    }
    written_.emplace_back(before, std::move(base));
  }
}

void TapeReplay::push_arguments(const Tape::Operator& op, torch::jit::Stack& stack) {
  // By argument; the stack holds them.
  absl::InlinedVector<c10::TensorImpl*, 8> objects(op.end_argument - op.first_argument);
  const auto tensor_at = [&](std::uint32_t i) {
    const Tape::Argument& argument = tape_.arguments[i];
    if (argument.kind == Kind::kConstant) {
      return tape_.constants[argument.number];
    }
    const Tape::Tensor recorded{TapeValueId(argument.number), argument.geometry};
    at::Tensor tensor =
        argument.same_as == 0
            ? argument_from(recorded)
            : at::Tensor(
                  c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(
                      objects[argument.same_as - 1]));
    const auto is_other = [&] {
      return std::find(objects.begin(), objects.end(), tensor.unsafeGetTensorImpl()) !=
             objects.end();
    };
    if (argument.same_as == 0 && is_other()) {
      tensor = look_at(recorded);  // two objects in forward
    }
    objects[i - op.first_argument] = tensor.unsafeGetTensorImpl();
    return c10::IValue(std::move(tensor));
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
}

void TapeReplay::take_results(TapeOperatorId index, const torch::jit::Stack& stack) {
  const Tape::Operator& op = tape_.operators[index];
  std::uint32_t ordinal = 0;
  std::uint32_t next = op.first_made;
  for (const c10::IValue& result : stack) {
    for_each_tensor(result, [&](const at::Tensor& tensor) {
      if (next == op.end_made || tape_.made[next].ordinal != ordinal++) {
        return;
      }
      const Tape::Made& made = tape_.made[next++];
      if (made.geometry != Tape::kNone && !tape_.geometries[made.geometry].is_of(tensor)) {
        throw DeterminismError(c10::str(
            "[checkpoint] region '", record_.name, "': ", describe_operator(index), " gives ",
            TensorMetadata(tensor).to_string(), " in the recomputation, and gave another shape, ",
            "dtype or layout in forward"));
      }
      liveness_->note_made(made.value);
      work_[made.value].base = {tensor, 0, version_of(tensor)};
    });
  }
  for (std::size_t i = 0; i < written_.size(); ++i) {
    const Tape::Write& write = tape_.writes[op.first_write + i];
    if (write.after != Tape::kNone) {
      liveness_->note_made(write.after);
      written_[i].second.version = version_of(written_[i].second.tensor);
      work_[write.after].base = std::move(written_[i].second);
    }
  }
  written_.clear();
}

}  // namespace reprise::engine_internal
