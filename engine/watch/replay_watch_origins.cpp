// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The origins of a replay's memory: why it differs from forward's, and memory that forward has left
// over.
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <utility>

#include "reprise/engine/checks/saved_tensor_record.h"
#include "reprise/engine/embedding/embedding_language.h"
#include "reprise/engine/operators/operator_facts.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/watch/replay_watch.h"

namespace reprise::engine_internal {
namespace {

using Forbids = ReplayOrigins::Forbids;

}  // namespace

std::uint32_t ReplayWatch::origin_after(const OperatorCall& call, std::uint32_t origin) {
  // Results that are supplied are forward's. But other memory may mean that the code asks for other
  // results, and contents are compared at one read only.
  if (ReplayOrigins::is_stale(origin) && !has_run_) {
    origin = origins_.add(origins_.description(origin), Forbids::kKeep);
  }
  if (change_ && (has_run_ || !has_other_version_)) {
    const std::uint32_t changed =
        origins_.add(*change_, has_run_ ? Forbids::kSave : Forbids::kKeep);
    if (has_run_ && other_.defined()) {
      others_.push_back({WatchedForward::WeakMemory(other_), changed});
      stale_slots_.note_found(storage_id_of(other_), changed);
    }
    origin = std::min(origin, changed);
  }
  other_.reset();
  if (ReplayOrigins::is_stale(origin) && call.traits.written_arguments.empty()) {
    bool has_tensors = false;
    for (const c10::IValue& result : call.results()) {
      for_each_tensor(result, [&](const at::Tensor& /*tensor*/) { has_tensors = true; });
    }
    if (!has_tensors) {
      stale_slots_.note_host_read(origin);
    }
  }
  return origin;
}

std::uint32_t ReplayWatch::origin_at(StorageId memory) const {
  if (const ProvenanceMap::Entry* const entry = made_.find(memory)) {
    return entry->origin;
  }
  const auto other = std::find_if(others_.begin(), others_.end(), [memory](const Other& each) {
    return each.memory.id() == memory;
  });
  return other == others_.end() ? ProvenanceMap::kNone : other->origin;
}

std::uint32_t ReplayWatch::origin_of_arguments(const ProvenanceMap::Call& described) const {
  std::uint32_t origin = ProvenanceMap::kNone;
  for (const StorageId memory : described.arguments) {
    origin = std::min(origin, origin_at(memory));
  }
  return origin;
}

std::uint32_t ReplayWatch::stale_origin_of(const OperatorCall& call) {
  if (!origins_.has(Forbids::kSave)) {
    return ProvenanceMap::kNone;
  }
  const ProvenanceMap::Call described = made_.call_of(call);
  const std::uint32_t origin = std::min(described.origin, origin_of_arguments(described));
  return ReplayOrigins::is_stale(origin) ? origin : ProvenanceMap::kNone;
}

void ReplayWatch::note_save(SlotId slot, const at::Tensor& tensor) {
  const StorageId memory = storage_id_of(tensor);
  if (!origins_.has(Forbids::kSave)) {
    stale_slots_.note_save(slot, memory, ProvenanceMap::kNone);
    return;
  }
  // Autograd saves an alias, and nothing tells of an opaque tensor which one it is an alias of.
  const bool is_unknown = storage_of(tensor) == nullptr && !ProvenanceMap::is_object(tensor) &&
                          !is_of_language(tensor) && made_.find(memory) == nullptr;
  stale_slots_.note_save(slot, memory, is_unknown ? origins_.first_stale() : origin_at(memory));
  if (const StorageId values = values_of_sparse(tensor)) {
    stale_slots_.note_save(slot, values, origin_at(values));
  }
}

// Forward has made the tensor, and the region's code has cached it, like a mask that is made once.
bool ReplayWatch::add_left_over(const at::Tensor& tensor) {
  const StorageId memory = storage_id_of(tensor);
  if (made_.find(memory) != nullptr) {
    return false;
  }
  for (const WatchedForward::Input& input : forward_.inputs) {
    if (input.memory.id() == memory) {
      made_.add_input(tensor, input.number, 0);
      return true;
    }
  }
  if (!ProvenanceMap::is_followed(tensor)) {
    return false;
  }
  const ProvenanceMap::Entry* const left = forward_.left_over(memory);
  if (left == nullptr) {
    return false;
  }
  const ProvenanceMap::Entry& entry = *left;
  if (checks_outside_ && version_of(tensor) > entry.version) {
    const std::uint32_t origin = origins_.add(
        c10::str("it depends on a tensor that the region's forward has made, ",
                 TensorMetadata(tensor).to_string(), ", and that has been changed in place since"));
    made_.add(tensor, {.hash = ~entry.hash, .origin = origin, .is_left_over = true});
  } else {
    made_.add(tensor, {.hash = entry.hash, .is_left_over = true});
  }
  return true;
}

// Supplied results of a Python class have their elements in forward's memory.
void ReplayWatch::add_left_over_parts(const OperatorCall& call) {
  for (const c10::IValue& result : call.results()) {
    for_each_tensor(result, [&](const at::Tensor& tensor) {
      if (is_of_language(tensor) && is_wrapper(tensor)) {
        std::vector<at::Tensor> parts;
        append_parts(tensor, parts);
        for (const at::Tensor& part : parts) {
          add_left_over(part);
        }
      }
    });
  }
}

// The result of a collective that a policy has saved: forward has waited for it.
bool ReplayWatch::is_wait_for_left_over(const OperatorCall& call) {
  const at::Tensor& tensor = call.argument(0).toTensor();
  add_left_over(tensor);
  const ProvenanceMap::Entry* const entry = made_.find(storage_id_of(tensor));
  return entry != nullptr && entry->is_left_over && entry->origin == ProvenanceMap::kNone;
}

// Forward has waited for the same result, which had another hash then.
void ReplayWatch::match_wait(const OperatorCall& call) {
  const auto& operators = forward_.operators;
  if (next_ < operators.size() && *operators[next_].name == call.op.operator_name()) {
    ++calls_;
    matched_ = next_++;
  }
}

std::uint32_t ReplayWatch::origin_for(const OperatorCall& call,
                                      const ProvenanceMap::Call& described) {
  if (described.origin != ProvenanceMap::kNone) {
    return described.origin;
  }
  if (!matched_) {
    note_read_ahead(described);
    const auto& operators = forward_.operators;
    return origins_.add(c10::str(describe_call(call),
                                 ", which forward did not run, or ran on other numbers or tensors",
                                 next_ < operators.size()
                                     ? c10::str("; forward ran ", *operators[next_].name, " there")
                                     : "",
                                 torchscript_hint()),
                        described.reads_left_over ? Forbids::kKeep
                        : is_ahead()              ? Forbids::kKeepInPlaceOfOutside
                                                  : Forbids::kNothing);
  }
  return ProvenanceMap::kNone;
}

std::string ReplayWatch::describe_call(const OperatorCall& call) const {
  return c10::str("it depends on operator ", calls_ - 1, " of the recomputation, ",
                  call.op.operator_name());
}

void ReplayWatch::note_read_ahead(const ProvenanceMap::Call& described) {
  if (!is_ahead()) {
    return;
  }
  for (const at::Tensor* const tensor : described.outside) {
    if (auto storage = weak_storage_of(*tensor); !storage.expired()) {
      read_ahead_.push_back(std::move(storage));
    }
  }
}

std::optional<std::string> ReplayWatch::wrongly_kept() const {
  const bool replaces_outside = std::any_of(read_ahead_.begin(), read_ahead_.end(),
                                            [](const auto& storage) { return storage.expired(); });
  const Forbids mildest = replaces_outside ? Forbids::kKeepInPlaceOfOutside : Forbids::kKeep;
  const auto* const entry =
      origins_.has(mildest) ? made_.find_alive([&](const ProvenanceMap::Entry& each) {
        return each.origin != ProvenanceMap::kNone && !each.is_left_over &&
               ReplayOrigins::forbids(each.origin) <= mildest;
      })
                            : nullptr;
  return entry == nullptr ? std::nullopt : std::optional(describe(entry->origin));
}

Provenance ReplayWatch::provenance_of(const at::Tensor& tensor) {
  const auto* entry = made_.find(storage_id_of(tensor));
  if (entry == nullptr && add_left_over(tensor)) {
    entry = made_.find(storage_id_of(tensor));
  }
  return made_.of(tensor, entry);
}

std::string ReplayWatch::origin_of(const at::Tensor& tensor) const {
  const auto* const entry = made_.find(storage_id_of(tensor));
  if (entry == nullptr || entry->origin == ProvenanceMap::kNone) {
    return "it is another tensor than the one that forward saved here";
  }
  return describe(entry->origin);
}

}  // namespace reprise::engine_internal
