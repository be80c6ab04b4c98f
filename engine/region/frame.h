// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The record of one forward run of a region, and its sessions.
//
// Note [Ownership is a tree]: autograd's nodes own slots, slots own the frame, the frame owns the
// region's recomputation with its inputs and code. The frame knows only whether a slot is alive. An
// enclosing region's slots are among the inputs of the inner frame. Nothing points back, so
// destroying a graph destroys all of it.
#ifndef REPRISE_ENGINE_REGION_FRAME_H_
#define REPRISE_ENGINE_REGION_FRAME_H_

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "reprise/base/export.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/base/threading/size_hint.h"
#include "reprise/engine/kept/weak_alias.h"
#include "reprise/engine/recomputation/recomputation.h"
#include "reprise/engine/region/session.h"
#include "reprise/hooks/seam/hook_stack.h"

namespace reprise::engine_internal {

// Note [Shared tensors]: a backward with create_graph retains the tensors that it receives, in the
// graph of its gradients. Without regions, these are the tensors that the region's graph holds. So
// that several such backwards retain them once, a session begins with the tensors of earlier
// sessions that others still hold, unmodified, and recomputes the others only.
//
// A backward of inputs and a backward of weights apart (zero bubble) read the same tensors. In a
// GraphExecGroup, and within a memory budget, the frame itself keeps the tensors that a backward
// received which keeps its graph, as the graph would without regions, and the next backward begins
// with them. They stay until that backward ends, the graph or the group does, or the budget needs
// their memory: they are the first to go, those of the first nodes of forward in front, which the
// next backward comes to last.
class Frame : public std::enable_shared_from_this<Frame> {
 public:
  explicit Frame(RegionRecord record);
  // To be called once, before forward runs.
  void set_recomputation(std::unique_ptr<Recomputation> recomputation);
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  ~Frame();

  const std::string& name() const { return record_.name; }
  bool is_in_hooks() const { return record_.is_in_hooks(); }

  // Returns the number of frames in the process, for leak tests.
  static std::int64_t live_count();

  // From now on, reading a slot throws a CheckpointError with this message.
  void refuse_replays(std::string why);

  // For forward, on its thread.
  RegionRecord& record_of_forward() { return record_; }
  Recomputation& recomputation() { return *recomputation_; }

  // Returns the hooks for a tensor that forward saves: its slot.
  std::unique_ptr<hooks_internal::SavedVariableHooks> make_slot();

  // Forward has ended. Returns whether autograd still holds a slot of the region. may_pack:
  // retained tensors may go to the surrounding saved-tensor hooks, which may throw.
  bool complete_forward(bool may_pack);

  // Recomputes all missing tensors of the session now.
  void recompute_now(SessionId id);

  // Frees values on the device that can be computed again, of at least `bytes` together if there
  // are as many. Returns the bytes freed; 0 while another thread recomputes. On forward's thread
  // while that runs.
  std::int64_t evict(std::int64_t bytes, c10::Device device);

  // Drops tensors on the device that are kept for the next backward, of at least `bytes` together
  // if there are as many. Returns the bytes freed.
  std::int64_t drop_supplied(std::int64_t bytes, c10::Device device);
  // Returns the bytes of those that nothing else holds.
  std::int64_t supplied_bytes(c10::Device device);

  // Returns the frame of a slot; null for other hooks.
  REPRISE_API static Frame* of_slot(const hooks_internal::SavedVariableHooks& hooks);
  // Returns what the region holds for backward between forward and backward, whichever of its slots
  // are alive. Its regions inside and the hooks around it hold theirs.
  REPRISE_API HeldValues held();

  // Releases the tensors that the session still holds here.
  void end_session(SessionId id);

 private:
  friend class Slot;
  using Sessions = absl::InlinedVector<std::shared_ptr<Session>, 1>;

  // Forward: records the tensor instead of retaining it, and returns its slot's number.
  SlotId record(const at::Tensor& tensor);
  void count_dropped_bytes(const at::Tensor& tensor);
  // Forward has ended. If a store holds a tensor of this region, links the frame to the previous
  // such frame of this thread, which backward enters next.
  void follow_previous();
  bool has_stored() const;
  // Starts to fetch stored tensors of this region, and of the regions that backward enters next.
  void prefetch_ahead();
  void prefetch();
  // Returns the tensors in stores, in the order in which to fetch them.
  std::vector<std::shared_ptr<StoredTensor>> stored_in_order() ABSL_LOCKS_EXCLUDED(mutex_);
  // Backward: returns the recorded tensor, recomputed.
  at::Tensor unpack(SlotId slot);
  // See Note [Shared tensors].
  void note_supplied(SlotId slot, const at::Tensor& tensor, const Request& request)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Each returns the tensor that takes the place of the slot's recomputed one; undefined if none
  // does. The saved object itself; its contents when it was saved, by a region in hooks.
  at::Tensor original_of(SlotId slot, const RecomputedTensor& value) const;
  at::Tensor statistics_of(SlotId slot, const at::Tensor& recomputed) const;
  void take_supplied(Session& session, Session::Dropped& dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void forget_supplied(SlotId slot, Session::Dropped& dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void slot_died(SlotId slot);
  // Returns the values that no slot needs any more.
  std::unique_ptr<ReleasedValues> release_unneeded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SlotSet alive_now() ABSL_LOCKS_EXCLUDED(mutex_);

  std::shared_ptr<Session> find(SessionId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Releases the lock while it sets up a new session.
  std::shared_ptr<Session> open(const Request& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs or awaits the recomputation that supplies `slot`, or, without one, all missing slots.
  void fill(Session& session, std::optional<SlotId> slot, Session::Dropped& dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void replay_into(Session& session, std::optional<SlotId> slot, Session::Dropped& dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Called without the lock.
  FilledSlots replay(Session& session, std::optional<SlotId> slot);
  // Returns whether a recomputation should supply the slot's tensor.
  bool wants(const Session& session, SlotId slot) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool wants_any(const Session& session) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void check_unchanged(SlotId slot, const RecomputedTensor& value) const;

  static constinit thread_local base_internal::SizeHint t_slots_;

  RegionRecord record_;
  std::unique_ptr<Recomputation> recomputation_;
  absl::flat_hash_set<const void*> counted_storages_;  // in forward, for memory_report()
  bool has_stored_ = false;
  std::weak_ptr<Frame> previous_;  // see follow_previous()

  Mutex mutex_;
  std::condition_variable_any replay_ended_;
  Sessions sessions_ ABSL_GUARDED_BY(mutex_);
  struct Supplied {
    WeakAlias tensor;
    std::int64_t version;
    at::Tensor kept;   // the same, for the next backward; or undefined
    SessionId keeper;  // that received it
  };
  absl::flat_hash_map<SlotId, Supplied> supplied_ ABSL_GUARDED_BY(mutex_);
  std::string refusal_ ABSL_GUARDED_BY(mutex_);  // see refuse_replays()
  // That have died since forward ended, and that the recomputation does not know of.
  std::vector<SlotId> dead_slots_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_REGION_FRAME_H_
