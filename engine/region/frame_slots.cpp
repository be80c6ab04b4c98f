// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The slots of a frame: how they are made, and what becomes of a frame when they die.
#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "reprise/engine/effects/replay_graph.h"
#include "reprise/engine/region/frame.h"
#include "reprise/engine/tape_recording/tape_recorder.h"

namespace reprise::engine_internal {

using hooks_internal::SavedVariableHooks;

// One saved-tensor position. Owned by autograd's node.
class Slot final : public SavedVariableHooks {
 public:
  explicit Slot(std::shared_ptr<Frame> frame) : frame_(std::move(frame)) {}
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  ~Slot() override {
    if (packed_) {
      frame_->slot_died(number_);
    }
  }

  void call_pack_hook(const at::Tensor& tensor) override {
    number_ = frame_->record(tensor);
    packed_ = true;
    ReplayGraph::note_packed(tensor);
  }
  at::Tensor call_unpack_hook() override { return frame_->unpack(number_); }

 private:
  std::shared_ptr<Frame> frame_;
  std::uint32_t number_ = 0;
  bool packed_ = false;
};

std::unique_ptr<SavedVariableHooks> Frame::make_slot() {
  return std::make_unique<Slot>(shared_from_this());
}

std::uint32_t Frame::record(const at::Tensor& tensor) {
  const bool is_recorded = record_.recorder && record_.recorder->is_on_its_thread();
  SlotProvenance provenance = record_.watched ? record_.watched->of_slot(tensor) : SlotProvenance{};
  if (is_recorded && record_.check == DeterminismCheck::kValues) {
    provenance.is_unset = record_.recorder->is_unset(tensor);
  }
  SavedTensorRecord saved(tensor, record_.check_options(), provenance);
  if (record_.trace_recorder) {
    record_.trace_recorder->need(storage_id_of(tensor));
  }
  const Tape::Tensor place = is_recorded ? record_.recorder->slot(tensor) : Tape::Tensor{};
  const MutexLock lock(mutex_);
  if (record_.tape) {
    if (!is_recorded) {
      const auto slot = static_cast<std::uint32_t>(record_.tape->slots.size());
      record_.tape->held.emplace(slot, KeptResult(tensor));
    }
    record_.tape->slots.push_back(place);
  }
  if (record_.watched && record_.watched->has_new_transfer) {
    record_.watched->has_new_transfer = false;
    record_.slot_behind_transfers = static_cast<std::uint32_t>(record_.slots.size());
  }
  record_.slots.push_back(std::move(saved));
  alive_.push_back(true);
  if (record_.stats) {
    count_dropped_bytes(tensor);
  }
  return static_cast<std::uint32_t>(record_.slots.size() - 1);
}

void Frame::count_dropped_bytes(const at::Tensor& tensor) {
  record_.stats->slots.fetch_add(1);
  const bool is_parameter = tensor.is_leaf() && tensor.requires_grad();
  if (is_parameter || !tensor.has_storage()) {
    return;
  }
  if (counted_storages_.insert(tensor.storage().unsafeGetStorageImpl()).second) {
    record_.stats->dropped_bytes.fetch_add(static_cast<std::int64_t>(tensor.storage().nbytes()));
  }
}

std::vector<bool> Frame::alive_now() {
  const MutexLock lock(mutex_);
  return alive_;
}

// Nothing while a replay reads the tape: then the next slot that dies sees to it.
std::vector<Tape::Given> Frame::take_unneeded() {
  std::vector<Tape::Given> unneeded;
  const bool is_read = std::any_of(sessions_.begin(), sessions_.end(), [](const auto& session) {
    return session->replaying != std::thread::id();
  });
  if (is_read) {
    return unneeded;
  }
  for (const std::uint32_t dead : dead_slots_) {
    auto dropped = tape_uses_->drop_slot(*record_.tape, dead);
    std::move(dropped.begin(), dropped.end(), std::back_inserter(unneeded));
  }
  dead_slots_.clear();
  return unneeded;
}

void Frame::slot_died(std::uint32_t slot) {
  Session::Dropped dropped;           // freed after the lock
  std::vector<Tape::Given> unneeded;  // likewise
  const MutexLock lock(mutex_);
  alive_[slot] = false;
  if (tape_uses_) {
    dead_slots_.push_back(slot);
    unneeded = take_unneeded();
  }
  for (const auto& session : sessions_) {
    session->drop(slot, dropped);
  }
}

}  // namespace reprise::engine_internal
