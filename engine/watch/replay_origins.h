// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The reasons why tensors of a replay differ from forward's.
#ifndef REPRISE_ENGINE_WATCH_REPLAY_ORIGINS_H_
#define REPRISE_ENGINE_WATCH_REPLAY_ORIGINS_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "reprise/engine/checks/provenance.h"
#include "reprise/engine/checks/slot_id.h"
#include "reprise/engine/operators/storage_id.h"

namespace reprise::engine_internal {

// Numbered. Of several reasons a tensor has the one with the least number, which is among the
// strictest.
class ReplayOrigins {
 public:
  // The uses of a tensor that are errors. The strictest first.
  enum class Forbids : std::uint8_t {
    kSave,  // for backward, or read by the host; and all below
    kKeep,  // outside of the region; and all below
    kKeepInPlaceOfOutside,
    kNothing,
  };

  // Returns the number of a new origin.
  std::uint32_t add(std::string description, Forbids forbids = Forbids::kNothing);

  const std::string& description(std::uint32_t origin) const {
    return descriptions_[origin % kOrigins];
  }
  static Forbids forbids(std::uint32_t origin) { return static_cast<Forbids>(origin / kOrigins); }
  // Returns whether the tensor depends on a changed value: see StaleSlots. False without an origin.
  static bool is_stale(std::uint32_t origin) { return origin < kOrigins; }
  // Returns the first origin that is_stale(), or ProvenanceMap::kNone.
  std::uint32_t first_stale() const { return first_stale_; }
  // Returns whether any origin forbids at least that.
  bool has(Forbids forbids) const { return strictest_ <= forbids; }

 private:
  static constexpr std::uint32_t kOrigins = 1U << 28;  // at most

  std::vector<std::string> descriptions_;
  Forbids strictest_ = Forbids::kNothing;
  std::uint32_t first_stale_ = ProvenanceMap::kNone;
};

// Saved tensors that depend on a value that has been modified since forward read it, by the region
// itself or by other code. Harmless if only effects depend on it (a moving average), an error if a
// saved tensor or a host read does.
class StaleSlots {
 public:
  // A tensor has been saved for backward, by the operator that comes next or by the last one.
  // origin: of its value.
  void note_save(SlotId slot, StorageId memory, std::uint32_t origin) {
    saves_since_operator_.push_back({slot, memory});
    note_origin(slot, origin);
  }
  // The operator that is about to run does not read the values in `memory`: a tensor that it has
  // saved there does not count.
  void note_unused(std::span<const StorageId> memory);
  // An operator has run, and has found a value in `memory` with that origin.
  void note_found(StorageId memory, std::uint32_t origin);
  // An operator has run.
  void note_operator() { saves_since_operator_.clear(); }
  // The host has read a value.
  void note_host_read(std::uint32_t origin) { host_read_ = std::min(host_read_, origin); }

  struct Slot {
    SlotId slot;
    std::uint32_t origin;
  };
  // Returns the slots in the order in which they were saved.
  std::vector<Slot> all() const;
  // Returns the origin of a stale value that the host has read, or ProvenanceMap::kNone.
  std::uint32_t host_read() const { return host_read_; }
  // Returns whether an operator saved the slot's tensor without reading its value.
  bool is_unused(SlotId slot) const { return unused_.contains(slot); }

 private:
  struct Save {
    SlotId slot;
    StorageId memory;
  };
  void note_origin(SlotId slot, std::uint32_t origin) {
    if (ReplayOrigins::is_stale(origin)) {
      stale_.push_back({slot, origin});
    }
  }

  std::vector<Save> saves_since_operator_;
  std::vector<Slot> stale_;
  absl::flat_hash_set<SlotId> unused_;
  std::uint32_t host_read_ = ProvenanceMap::kNone;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_WATCH_REPLAY_ORIGINS_H_
