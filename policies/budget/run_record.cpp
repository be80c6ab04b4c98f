// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/budget/run_record.h"

#include <ATen/core/ivalue.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

namespace reprise::policies_internal {
namespace {

void for_each_storage(const c10::IValue& value, auto&& visit) {
  if (value.isTensor()) {
    if (const at::Tensor& tensor = value.toTensor(); tensor.defined() && tensor.has_storage()) {
      visit(tensor.storage());
    }
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) {
      for_each_storage(element, visit);
    }
  }
}

// Its results depend on no tensor but for its shape.
bool is_factory(std::string_view op) {
  return op.starts_with("aten::") && (op.ends_with("_like") || op.starts_with("aten::new_"));
}

bool is_collective(std::string_view op) {
  return op.starts_with("c10d::") || op.starts_with("_c10d_functional");
}

}  // namespace

bool is_same_run(const RunRecord& one, const RunRecord& other) noexcept {
  return std::equal(
      one.calls.begin(), one.calls.end(), other.calls.begin(), other.calls.end(),
      [](const RecordedCall& a, const RecordedCall& b) { return a.is_same_operator(b); });
}

const RecordedCall& RunRecorder::add(const PolicyContext& context, double seconds) {
  const std::string_view op = context.op();
  const AutogradSaves saves = autograd_saves(context);
  const auto call = static_cast<std::uint32_t>(record_.calls.size());
  const std::uint32_t index = result_of(context);
  const std::int64_t bytes = context.output_bytes();
  const bool reads_others = note_inputs(context, index, saves);
  const bool is_constant =
      (is_factory(op) || !reads_others) && !context.has_tag(at::Tag::nondeterministic_seeded);
  RecordedResult& result = record_.results[index];
  result.is_constant = is_constant && (!has_written_ || result.is_constant);
  result.is_communicated = result.is_communicated || is_collective(op);
  result.is_saved = result.is_saved || saves.results;
  result.bytes = std::max(result.bytes, bytes);
  result.last_call = call;
  record_.calls.push_back({context.op_id(), context.ordinal(), bytes, index, seconds});
  return record_.calls.back();
}

// Returns the result that the call has written to or, if there is none, a new one.
std::uint32_t RunRecorder::result_of(const PolicyContext& context) {
  const auto next = static_cast<std::uint32_t>(record_.results.size());
  std::uint32_t index = next;
  for (const c10::IValue& output : context.outputs()) {
    for_each_storage(output, [&](const c10::Storage& storage) {
      const auto known = memory_.find(storage.unsafeGetStorageImpl());
      index = known == memory_.end() ? index : std::min(index, known->second.result);
    });
  }
  has_written_ = index != next;
  if (!has_written_) {
    record_.results.emplace_back();
  }
  for (const c10::IValue& output : context.outputs()) {
    for_each_storage(output, [&](const c10::Storage& storage) {
      memory_.try_emplace(storage.unsafeGetStorageImpl(),
                          Memory{storage.getWeakStorageImpl(), index});
    });
  }
  return index;
}

// Returns whether the call has read a tensor other than its result.
bool RunRecorder::note_inputs(const PolicyContext& context, std::uint32_t result,
                              const AutogradSaves& saves) {
  bool reads_others = false;
  std::size_t argument = 0;
  for (const c10::IValue& value : context.arguments()) {
    const bool is_saved = saves.has_argument(argument++);
    for_each_storage(value, [&](const c10::Storage& storage) {
      const auto known = memory_.find(storage.unsafeGetStorageImpl());
      const bool is_own = known != memory_.end() && known->second.result == result;
      reads_others = reads_others || !is_own;
      if (known == memory_.end()) {
        return;
      }
      RecordedResult& input = record_.results[known->second.result];
      input.is_saved = input.is_saved || is_saved;
      if (!is_own &&
          std::find(input.readers.begin(), input.readers.end(), result) == input.readers.end()) {
        input.readers.push_back(result);
      }
    });
  }
  return reads_others;
}

}  // namespace reprise::policies_internal
