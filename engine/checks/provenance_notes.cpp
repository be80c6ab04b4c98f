// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The provenance of an operator's results, and of the memory that it writes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reprise/engine/checks/provenance.h"
#include "reprise/engine/checks/provenance_hash.h"
#include "reprise/engine/embedding/embedding_language.h"
#include "reprise/engine/operators/operator_facts.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/hooks/storage/alias.h"

namespace reprise::engine_internal {

void ProvenanceMap::note_writes(const OperatorCall& call, const Call& described,
                                std::uint32_t origin) {
  random_calls_ += call.traits.is_random ? 1 : 0;
  if (call.traits.written_arguments.empty()) {
    return;
  }
  const auto arguments = call.arguments();
  for (const std::uint32_t index : call.traits.written(arguments)) {
    for_each_tensor(arguments[index], [&](const at::Tensor& tensor) {
      if (Entry* const entry = entry_of(storage_id_of(tensor))) {
        const Provenance part = is_followed(tensor)
                                    ? with_geometry(described.hash, tensor, entry->shift)
                                    : described.hash;
        // In memory that outlives a run, like a cache, the next run finds the last contents.
        const Provenance earlier = refills(call.traits, tensor) ? Provenance{0} : entry->hash;
        entry->hash = mix_in(mix_in(earlier, kWritten), part);
        entry->origin = std::min(entry->origin, origin);
        entry->is_unset = entry->is_unset && call.traits.leaves_targets(arguments);
        entry->is_factorys = entry->is_factorys && described.arguments.size() == 1;
        ++entry->version;  // as autograd counts it, if it does
      }
    });
  }
}

void ProvenanceMap::note_origin(std::span<const StorageId> targets, std::uint32_t origin) {
  for (const StorageId memory : targets) {
    if (Entry* const entry = entry_of(memory)) {
      entry->origin = std::min(entry->origin, origin);
    }
  }
}

void ProvenanceMap::note_results(const OperatorCall& call, const Call& described,
                                 std::uint32_t origin) {
  std::uint64_t ordinal = 0;
  const std::span<const StorageId> arguments = described.arguments;
  for (const c10::IValue& result : call.results()) {
    for_each_tensor(result, [&](const at::Tensor& tensor) {
      ++ordinal;
      const StorageId memory = storage_id_of(tensor);
      if (std::find(arguments.begin(), arguments.end(), memory) != arguments.end()) {
        return;
      }
      if (storage_of(tensor) == nullptr) {
        if (!is_of_language(tensor)) {  // of an opaque layout, such as MKL-DNN's, only the origin
          add_object(tensor, origin);
        }
        return;
      }
      Entry& entry = entry_for(tensor);
      entry.hash = is_followed(tensor) ? mix_in(described.hash, ordinal) : std::uint64_t{kOpaque};
      entry.shift = 0;
      entry.version = 0;
      entry.origin = origin;
      entry.is_unset = call.traits.leaves_memory_as_it_is || leaves_parts_unset(call, tensor);
      entry.is_factorys = entry.is_unset || call.traits.makes_constants ||
                          (arguments.empty() && !call.traits.is_random);
      if (is_of_language(tensor) && is_wrapper(tensor)) {
        add_parts(tensor, {.hash = mix_in(described.hash, ordinal), .origin = origin});
      }
    });
  }
}

void ProvenanceMap::add_parts(const at::Tensor& wrapper, const Entry& made) {
  std::vector<at::Tensor> parts;
  has_unknown_parts_ = !append_parts(wrapper, parts) || has_unknown_parts_;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (find(storage_id_of(parts[i])) == nullptr) {
      add(parts[i], {.hash = mix_in(made.hash, i), .origin = made.origin});
    }
  }
}

bool ProvenanceMap::views_opaque(const OperatorCall& call) {
  const c10::IValue& viewed = call.argument(0);
  return viewed.isTensor() && viewed.toTensor().defined() && !is_followed(viewed.toTensor());
}

void ProvenanceMap::note_views(const OperatorCall& call, std::uint32_t origin) {
  for (const c10::IValue& result : call.results()) {
    for_each_tensor(result, [&](const at::Tensor& tensor) {
      if (Entry* const known = entry_of(storage_id_of(tensor))) {
        known->origin = std::min(known->origin, origin);
      } else {
        add(tensor, {.hash = kOpaque, .origin = origin});
      }
    });
  }
}

void ProvenanceMap::note_hidden_writes(const OperatorCall& call) {
  for (const std::uint32_t index : call.traits.written(call.arguments())) {
    for_each_tensor(call.argument(index), [this](const at::Tensor& tensor) {
      if (find(storage_id_of(tensor)) != nullptr) {
        add(tensor, {.hash = kOpaque});
      }
    });
  }
}

void ProvenanceMap::note_hidden_results(const OperatorCall& call, std::uint32_t origin) {
  const auto results = call.results();
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!call.traits.result_arguments[i]) {  // others are targets
      for_each_tensor(results[i], [&](const at::Tensor& tensor) {
        add(tensor, {.hash = kOpaque, .origin = origin});
      });
    }
  }
}

void ProvenanceMap::note_recomputed(const at::Tensor& tensor, StorageId saved,
                                    Provenance provenance) {
  if (find(storage_id_of(tensor)) != nullptr) {
    return;
  }
  if (!is_followed(tensor)) {
    if (is_object(tensor)) {
      add_object(tensor);
    }
    return;
  }
  if (const Entry* const known = find(saved)) {
    add(tensor, {.hash = known->hash, .shift = known->shift, .origin = known->origin});
  } else {
    add(tensor, {.hash = provenance == 0 ? std::uint64_t{kOpaque} : provenance});
  }
}

void ProvenanceMap::note_cast(const OperatorCall& call, std::uint32_t origin) {
  const at::Tensor& cast = call.results()[0].toTensor();
  add(cast, {.hash = of_cast(cast), .origin = origin});
}

}  // namespace reprise::engine_internal
