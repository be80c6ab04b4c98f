// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Follows what a replay has read of tensors that are no longer what forward read: the region or
// somebody else has changed them in place since. Harmless where only effects depend on it (a moving
// average), wrong where it reaches a saved tensor or the host.
#ifndef REPRISE_ENGINE_EFFECTS_STALE_READS_H_
#define REPRISE_ENGINE_EFFECTS_STALE_READS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "reprise/engine/operators/storage_id.h"

namespace reprise::engine_internal {

class StaleReads {
 public:
  // The operator that is about to run does not use the values in `memory`.
  void note_unused(std::span<const StorageId> memory);

  // An operator has run. outputs: what depends on `inputs`; if nothing does, the operator tells the
  // host something. stale: words for an error, if an input is stale.
  void note_operator(std::span<const StorageId> inputs, std::span<const StorageId> outputs,
                     std::optional<std::string> stale);

  // A tensor has been saved for backward, by the operator that comes next or by the last one.
  void note_save(std::uint32_t slot, StorageId memory);

  // Words for an error, if it matters. Saved tensors that their operator did not use do not count.
  std::optional<std::string> conflict() const;

  // Saved by an operator that does not use its value.
  bool is_unused(std::uint32_t slot) const { return unused_slots_.contains(slot); }

 private:
  absl::flat_hash_map<StorageId, std::string> stale_;  // with the words for an error
  std::vector<std::pair<std::uint32_t, std::string>> stale_slots_;
  std::optional<std::string> told_host_;

  std::vector<std::pair<std::uint32_t, StorageId>> saves_since_operator_;
  absl::flat_hash_set<std::uint32_t> unused_slots_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_EFFECTS_STALE_READS_H_
