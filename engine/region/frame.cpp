// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/region/frame.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "reprise/engine/embedding/embedding_language.h"
#include "reprise/engine/errors.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/region/group_state.h"
#include "reprise/hooks/storage/alias.h"

namespace reprise::engine_internal {

namespace {

std::atomic<std::int64_t> g_live_frames{0};

// Ends a frame's session when LibTorch runs this callback or, after an error, destroys it.
class SessionEnd {
 public:
  SessionEnd(std::weak_ptr<Frame> frame, SessionId id) : frame_(std::move(frame)), id_(id) {}
  SessionEnd(const SessionEnd&) = delete;
  SessionEnd& operator=(const SessionEnd&) = delete;
  ~SessionEnd() { finish(); }

  void finish() {
    if (const auto frame = std::exchange(frame_, {}).lock()) {
      frame->end_session(id_);
    }
  }

 private:
  std::weak_ptr<Frame> frame_;
  SessionId id_;
};

}  // namespace

constinit thread_local base_internal::SizeHint Frame::t_slots_;

Frame::Frame(RegionRecord record) : record_(std::move(record)) {
  t_slots_.reserve(record_.slots);
  g_live_frames.fetch_add(1, std::memory_order_relaxed);
}

void Frame::set_recomputation(std::unique_ptr<Recomputation> recomputation) {
  recomputation_ = std::move(recomputation);
  if (record_.stats) {
    for (const RegionInput& input : recomputation_->inputs()) {
      record_.stats->kept_bytes.fetch_add(input.kept_bytes());
      counted_storages_.insert(input.storage());
    }
  }
}

Frame::~Frame() { g_live_frames.fetch_sub(1, std::memory_order_relaxed); }

std::int64_t Frame::live_count() { return g_live_frames.load(); }

bool Frame::complete_forward(bool may_pack) {
  const SlotSet alive = alive_now();
  for (const SlotId slot : alive.ids()) {
    record_.slots[slot].saved.complete(alive[slot]);
  }
  recomputation_->end_forward(alive, may_pack);
  follow_previous();
  const MutexLock lock(mutex_);
  record_.forward_completed = true;
  t_slots_.complete(record_.slots);
  for (const SlotId slot : alive.ids()) {
    record_.slots[slot].outlives_forward = alive[slot];
  }
  counted_storages_ = {};
  return std::any_of(record_.slots.begin(), record_.slots.end(),
                     [](const RegionRecord::Slot& slot) { return slot.is_alive; });
}

at::Tensor Frame::unpack(SlotId slot) {
  if (record_.allow_external_mutation) {
    if (at::Tensor parameter = record_.slots[slot].saved.parameter_now(); parameter.defined()) {
      return parameter;
    }
  }
  const Request request = current_request();
  recomputation_->note_read(slot);
  std::shared_ptr<Session> session;
  RecomputedTensor value;
  {
    Session::Dropped dropped;  // freed after the lock
    const MutexLock lock(mutex_);
    session = open(request);
    record_.is_read_in_forward = record_.is_read_in_forward || !record_.forward_completed;
    fill(*session, slot, dropped);
    value = session->take(slot, request.backward, dropped);
  }
  session->streams().order_use(value.tensor);
  if (request.session.kind == SessionId::Kind::kRead) {
    end_session(request.session);
  }
  check_unchanged(slot, value);
  const SavedTensorRecord& saved = record_.slots[slot].saved;
  at::Tensor original;
  if (saved.knows_object()) {
    if (at::Tensor now = saved.reassigned(); now.defined()) {
      return now;
    }
    if (at::Tensor statistics = statistics_of(slot, value.tensor); statistics.defined()) {
      return statistics;
    }
    original = original_of(slot, value);
  }
  if (request.backward.keeps_graph && request.backward.id >= 0 && !value.is_moved) {
    note_supplied(slot, original.defined() ? original : value.tensor, request);
  }
  if (original.defined()) {
    return original;
  }
  OperatorInterceptor* const interceptor = InterceptionScope::current();
  if (interceptor != nullptr && !saved.shares_memory_with(value.tensor)) {
    interceptor->note_recomputed(value.tensor, saved.storage()._unsafe_get_target(),
                                 saved.memory_provenance());
  }
  return std::move(value.tensor);
}

// Autograd does not see an uncounted write, and without hooks has the object as it is now; a region
// inside reads its input as it was. See Note [Saved under hooks].
at::Tensor Frame::original_of(SlotId slot, const RecomputedTensor& value) const {
  const SavedTensorRecord& saved = record_.slots[slot].saved;
  const bool is_input = record_.slots[slot].input_group != 0;
  const bool is_written = saved.is_written_uncounted();
  const bool is_as_it_was = is_input ? value.is_moved || is_written
                                     : value.is_moved && (record_.is_in_hooks() || !is_written);
  return is_as_it_was ? at::Tensor() : saved.original();
}

at::Tensor Frame::statistics_of(SlotId slot, const at::Tensor& recomputed) const {
  const RegionRecord::Slot& read = record_.slots[slot];
  const bool has_copies = record_.is_in_hooks() && read.input_group == 0;
  const at::Tensor contents =
      has_copies ? record_.statistics->find(read.saved, recomputed) : at::Tensor();
  return contents.defined() ? hooks_internal::detached_alias(contents) : at::Tensor();
}

void Frame::check_unchanged(SlotId slot, const RecomputedTensor& value) const {
  if (version_of(value.tensor) == value.version || record_.allow_external_mutation) {
    return;
  }
  const SavedTensorRecord& saved = record_.slots[slot].saved;
  throw MutationError(c10::str(
      "[checkpoint] region '", record_.name,
      "': one of the variables needed for gradient computation has been modified by an inplace "
      "operation: slot ",
      slot, " (result of ", saved.producer(), "), ", saved.metadata().to_string(),
      ", was recomputed at version ", value.version, " and is now at version ",
      version_of(value.tensor), ". Change a clone instead"));
}

std::shared_ptr<Session> Frame::find(SessionId id) {
  for (const auto& session : sessions_) {
    if (session->id() == id) {
      return session;
    }
  }
  return nullptr;
}

void Frame::refuse_replays(std::string why) {
  const MutexLock lock(mutex_);
  refusal_ = std::move(why);
}

std::shared_ptr<Session> Frame::open(const Request& request) {
  if (!refusal_.empty()) {
    throw CheckpointError(refusal_);
  }
  if (std::shared_ptr<Session> known = find(request.session)) {
    return known;
  }
  auto session = std::make_shared<Session>(request);
  sessions_.push_back(session);
  mutex_.unlock();
  const absl::Cleanup relock = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.lock(); };
  if (request.group) {
    request.group->add_session(weak_from_this());
  } else if (request.session.kind == SessionId::Kind::kBackward) {
    auto end = std::make_shared<SessionEnd>(weak_from_this(), request.session);
    hooks_internal::at_backward_end([end = std::move(end)] { end->finish(); });
  }
  return session;
}

// A parameter that may be freed and gathered is not retained: unpack() looks it up itself.
bool Frame::wants(const Session& session, SlotId slot) const {
  const RegionRecord::Slot& recorded = record_.slots[slot];
  const bool is_followed = record_.allow_external_mutation && recorded.saved.is_parameter();
  return recorded.is_alive && !is_followed && session.wants(slot);
}

bool Frame::wants_any(const Session& session) const {
  for (const SlotId slot : record_.slots.ids()) {
    if (wants(session, slot)) {
      return true;
    }
  }
  return false;
}

void Frame::fill(Session& session, std::optional<SlotId> slot, Session::Dropped& dropped) {
  while (!slot || !session.has(*slot)) {
    if (session.replaying == std::this_thread::get_id()) {
      throw CheckpointError(c10::str(
          "[checkpoint] region '", record_.name,
          "': its recomputation asks for a tensor that it is to supply; its code must not read "
          "tensors saved by its own earlier run"));
    }
    if (session.replaying != std::thread::id()) {
      replay_ended_.wait(mutex_);
      continue;  // that recomputation may have failed; then this thread tries
    }
    if (slot) {
      session.restart_if_taken(*slot);
    }
    if (session.begins()) {
      take_supplied(session, dropped);
      continue;
    }
    if (slot || wants_any(session)) {
      replay_into(session, slot, dropped);
    }
    if (!slot) {
      return;
    }
  }
}

FilledSlots Frame::replay(Session& session, std::optional<SlotId> slot) {
  if (has_stored_ && !session.has_replayed()) {
    prefetch_ahead();
  }
  const auto is_wanted = [&](SlotId other) {
    const MutexLock lock(mutex_);
    return other == slot || wants(session, other);
  };
  const auto all_wanted = [&] {
    SlotSet wanted(record_.slots.size());
    const MutexLock lock(mutex_);
    for (const SlotId other : wanted.ids()) {
      wanted[other] = other == slot || wants(session, other);
    }
    return wanted;
  };
  return session.recomputation(*recomputation_)
      .fill({slot, is_wanted, all_wanted, session.is_last()});
}

void Frame::replay_into(Session& session, std::optional<SlotId> slot, Session::Dropped& dropped) {
  session.replaying = std::this_thread::get_id();
  const absl::Cleanup done = [&] {
    session.replaying = std::thread::id();
    replay_ended_.notify_all();
  };
  session.streams().choose(
      record_.state.streams,
      slot ? std::optional(record_.slots[*slot].saved.metadata().device) : std::nullopt);
  FilledSlots values;
  {
    mutex_.unlock();
    const absl::Cleanup relock = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.lock(); };
    const SessionStreamsGuard streams(session.streams());
    values = replay(session, slot);
  }
  for (auto& [filled, value] : values) {
    if (record_.slots[filled].is_alive) {
      session.fill(filled, std::move(value), dropped);
    } else {
      dropped.push_back(std::move(value.tensor));
    }
  }
}

void Frame::recompute_now(SessionId id) {
  const LanguageLockRelease unlocked;
  const Request request = current_request();
  TORCH_INTERNAL_ASSERT(request.session == id);
  Session::Dropped dropped;  // freed after the lock
  std::shared_ptr<Session> session;
  const MutexLock lock(mutex_);
  session = open(request);
  fill(*session, std::nullopt, dropped);
}

std::int64_t Frame::evict(std::int64_t bytes, c10::Device device) {
  std::vector<at::Tensor> evicted;  // freed after the lock
  std::int64_t evicted_bytes = 0;
  const MutexLock lock(mutex_);
  std::vector<SessionHoldings> holdings;
  for (const auto& session : sessions_) {
    const std::thread::id replaying = session->replaying;
    if (replaying != std::thread::id() && replaying != std::this_thread::get_id()) {
      return 0;
    }
    holdings.push_back(session->holdings());
  }
  evicted = recomputation_->evict(bytes, device, holdings);
  for (const at::Tensor& tensor : evicted) {
    evicted_bytes += static_cast<std::int64_t>(tensor.storage().nbytes());
  }
  return evicted_bytes;
}

void Frame::end_session(SessionId id) {
  std::shared_ptr<Session> ended;  // its tensors are freed after the lock
  Session::Dropped dropped;        // likewise
  const MutexLock lock(mutex_);
  if (id.kind == SessionId::Kind::kGroup) {
    for (auto& [slot, supplied] : supplied_) {
      if (supplied.keeper == id && supplied.kept.defined()) {
        dropped.push_back(std::exchange(supplied.kept, {}));
      }
    }
  }
  const auto* const found = std::find_if(sessions_.begin(), sessions_.end(),
                                         [&](const auto& session) { return session->id() == id; });
  if (found != sessions_.end()) {
    ended = *found;
    sessions_.erase(found);
  }
}

}  // namespace reprise::engine_internal
