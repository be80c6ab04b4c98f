// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A session: the requests for saved tensors that share one recomputation of a region. Each backward
// is a session, as is each GraphExecGroup and each read outside of a backward.
#ifndef REPRISE_ENGINE_REGION_SESSION_H_
#define REPRISE_ENGINE_REGION_SESSION_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "reprise/engine/ambient/region_streams.h"
#include "reprise/engine/recomputation/recomputation.h"
#include "reprise/hooks/seam/forwarding_engine.h"

namespace reprise::engine_internal {

class Frame;
class GroupState;

struct SessionId {
  enum class Kind : std::uint8_t { kBackward, kGroup, kRead };
  Kind kind = Kind::kRead;
  std::int64_t number = 0;
  friend bool operator==(const SessionId&, const SessionId&) = default;
};

// The origin of a request on the calling thread.
struct Request {
  SessionId session;
  hooks_internal::BackwardInfo backward;
  std::shared_ptr<GroupState> group;  // for kGroup
};
Request current_request();

// One session's state in one frame. Guarded by the frame's mutex. Released tensors are appended to
// a list, to be freed outside of the lock.
class Session {
 public:
  using Dropped = absl::InlinedVector<at::Tensor, 4>;

  explicit Session(const Request& request)
      : id_(request.session),
        is_last_(id_.kind == SessionId::Kind::kBackward && !request.backward.keeps_graph) {}

  const SessionId& id() const { return id_; }
  // Returns whether the backward frees the nodes that it runs. A later one, through other nodes,
  // recomputes without saved results.
  bool is_last() const { return is_last_; }

  bool has(SlotId slot) const {
    return slots_.contains(slot) && slots_[slot].value.tensor.defined();
  }
  // Returns whether a recomputation should supply the slot's tensor: no caller has received it yet
  // in this session.
  bool wants(SlotId slot) const { return !has(slot) && !is_taken(slot); }

  // To be called if a slot is missing. A group spans several backwards: one that asks for a tensor
  // that an earlier one received will ask for the rest as well, so all are wanted again.
  void restart_if_taken(SlotId slot) {
    if (id_.kind == SessionId::Kind::kGroup && is_taken(slot)) {
      for (SlotState& state : slots_) {
        state.is_taken = false;
      }
      if (recomputation_ != nullptr) {
        recomputation_->restart();
      }
      has_begun_ = false;  // the frame may have kept tensors since
    }
  }

  // Adds a recomputed tensor.
  void fill(SlotId slot, RecomputedTensor value, Dropped& dropped);

  // Returns the slot's tensor. A node that may ask again finds it until another node asks.
  RecomputedTensor take(SlotId slot, const hooks_internal::BackwardInfo& asking, Dropped& dropped);

  // Returns what an eviction may take.
  SessionHoldings holdings();

  // Releases the slot's tensor.
  void drop(SlotId slot, Dropped& dropped);

  SessionStreams& streams() { return streams_; }

  // Returns true the first time.
  bool begins() { return !std::exchange(has_begun_, true); }

  bool has_replayed() const { return recomputation_ != nullptr; }

  // The region's recomputation for this session.
  SessionRecomputation& recomputation(Recomputation& region) {
    if (recomputation_ == nullptr) {
      recomputation_ = region.begin_session();
    }
    return *recomputation_;
  }

  // The thread that recomputes for this session now, if any.
  std::thread::id replaying;

 private:
  struct SlotState {
    RecomputedTensor value;  // undefined if not supplied, or taken by its last reader
    bool is_taken = false;
  };

  bool is_taken(SlotId slot) const { return slots_.contains(slot) && slots_[slot].is_taken; }
  void forget_last_reader(Dropped& dropped);

  SessionId id_;
  bool is_last_;
  base_internal::IdVector<SlotId, SlotState> slots_;
  const void* reader_ = nullptr;  // the node that received the tensors below and may ask again
  absl::InlinedVector<SlotId, 4> read_;
  SessionStreams streams_;
  std::unique_ptr<SessionRecomputation> recomputation_;
  bool has_begun_ = false;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_REGION_SESSION_H_
