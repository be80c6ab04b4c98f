// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Follows a replay's reads of tensors that have been modified since forward read them, by the
// region itself or by other code. Harmless if only effects depend on them (a moving average), an
// error if a saved tensor or a host read does.
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
#include "reprise/engine/checks/slot_id.h"
#include "reprise/engine/operators/storage_id.h"

namespace reprise::engine_internal {

class StaleReads {
 public:
  // The operator that is about to run does not read the values in `memory`.
  void note_unused(std::span<const StorageId> memory);

  // The operator that is about to run reads another tensor there than forward's.
  void note_other(StorageId memory, const std::string& message);

  // An operator has run. outputs: memory that depends on `inputs`; if empty, the operator is a host
  // read. stale: an error message, if an input is stale.
  void note_operator(std::span<const StorageId> inputs, std::span<const StorageId> outputs,
                     std::optional<std::string> stale);

  bool has_stale() const { return !stale_.empty(); }

  // A tensor has been saved for backward, by the operator that comes next or by the last one.
  void note_save(SlotId slot, StorageId memory);

  struct Conflict {
    SlotId slot;
    std::string message;
  };
  // Returns the slots that depend on stale values, in order. Saved tensors that their operator did
  // not read do not count.
  std::vector<Conflict> conflicts() const;

  // Returns an error message if a host read depends on a stale value.
  const std::optional<std::string>& host_read() const { return host_read_; }

  // Returns whether an operator saved it without reading its value.
  bool is_unused(SlotId slot) const { return unused_slots_.contains(slot); }

 private:
  absl::flat_hash_map<StorageId, std::string> stale_;  // with error messages
  std::vector<Conflict> stale_slots_;
  std::optional<std::string> host_read_;

  std::vector<std::pair<SlotId, StorageId>> saves_since_operator_;
  absl::flat_hash_set<SlotId> unused_slots_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_EFFECTS_STALE_READS_H_
