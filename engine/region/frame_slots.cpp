// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The slots of a frame: their creation, and the release of values when they die.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/engine/effects/replay_graph.h"
#include "reprise/engine/embedding/embedding_language.h"
#include "reprise/engine/kept/input_group.h"
#include "reprise/engine/operators/autograd_facts.h"
#include "reprise/engine/region/frame.h"
#include "reprise/hooks/seam/variable_hooks.h"
#include "reprise/hooks/storage/has_bytes.h"

namespace reprise::engine_internal {

using hooks_internal::SavedVariableHooks;

namespace {

// Returns the tensors whose memory a region drops with a saved tensor. Asks the embedding language.
std::vector<at::Tensor> tensors_in(const at::Tensor& saved) {
  std::vector<at::Tensor> parts;
  if (is_leaf_with_gradient(saved)) {
    return {};
  }
  return is_of_language(saved) && append_parts(saved, parts) ? parts
                                                             : std::vector<at::Tensor>{saved};
}

}  // namespace

// One saved-tensor position. Owned by autograd's node.
class Slot final : public hooks_internal::ListedHooks {
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
  at::Tensor call_unpack_hook() override {
    try {
      const LanguageLockRelease unlocked;
      return frame_->unpack(number_);
    } catch (const Error& error) {
      throw_in_language(error);
      throw;
    }
  }

  Frame& frame() const { return *frame_; }

 private:
  std::shared_ptr<Frame> frame_;
  SlotId number_;
  bool packed_ = false;
};

std::unique_ptr<SavedVariableHooks> Frame::make_slot() {
  return std::make_unique<Slot>(shared_from_this());
}

Frame* Frame::of_slot(const SavedVariableHooks& hooks) {
  const auto* const slot = dynamic_cast<const Slot*>(&hooks);
  return slot == nullptr ? nullptr : &slot->frame();
}

SlotId Frame::record(const at::Tensor& tensor) {
  const std::uint32_t input_group = InputGroup::current();
  const bool is_counted = input_group != 0 && input_group != InputGroup::kUncounted;
  SavedTensorRecord saved(tensor, record_.check_options(),
                          recomputation_->locate(tensor, /*is_input=*/input_group != 0));
  std::unique_ptr<const WeakAlias> input;
  if (is_counted && hooks_internal::has_bytes(tensor)) {
    input = std::make_unique<const WeakAlias>(tensor);
  }
  const std::vector<at::Tensor> counted =
      record_.stats ? tensors_in(tensor) : std::vector<at::Tensor>();
  const MutexLock lock(mutex_);
  const SlotId slot = record_.slots.next_id();
  recomputation_->add_slot(slot, tensor);
  record_.slots.emplace_back(std::move(saved), input_group, std::move(input));
  if (record_.stats) {
    record_.stats->saved_tensors.fetch_add(1);
    for (const at::Tensor& each : counted) {
      count_dropped_bytes(each);
    }
  }
  return slot;
}

void Frame::count_dropped_bytes(const at::Tensor& tensor) {
  if (!tensor.has_storage()) {
    return;
  }
  if (counted_storages_.insert(tensor.storage().unsafeGetStorageImpl()).second) {
    record_.stats->dropped_bytes.fetch_add(static_cast<std::int64_t>(tensor.storage().nbytes()));
  }
}

SlotSet Frame::alive_now() {
  const MutexLock lock(mutex_);
  SlotSet alive(record_.slots.size());
  for (const SlotId slot : alive.ids()) {
    alive[slot] = record_.slots[slot].is_alive;
  }
  return alive;
}

// Returns null while a recomputation runs: the next slot that dies releases them.
std::unique_ptr<ReleasedValues> Frame::release_unneeded() {
  const bool is_read = std::any_of(sessions_.begin(), sessions_.end(), [](const auto& session) {
    return session->replaying != std::thread::id();
  });
  if (is_read) {
    return nullptr;
  }
  auto released = recomputation_->drop_slots(dead_slots_);
  dead_slots_.clear();
  return released;
}

void Frame::slot_died(SlotId slot) {
  Session::Dropped dropped;                  // freed after the lock
  std::unique_ptr<ReleasedValues> released;  // likewise
  const MutexLock lock(mutex_);
  record_.slots[slot].is_alive = false;
  if (record_.forward_completed) {
    dead_slots_.push_back(slot);
    released = release_unneeded();
  }
  for (const auto& session : sessions_) {
    session->drop(slot, dropped);
  }
  forget_supplied(slot, dropped);
}

}  // namespace reprise::engine_internal
