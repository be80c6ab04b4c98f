// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/internal/frame.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "reprise/engine/errors.h"
#include "reprise/engine/internal/group_state.h"
#include "reprise/engine/internal/replay_pass.h"
#include "reprise/engine/internal/tape_recorder.h"

namespace reprise::engine_internal {

using hooks_internal::SavedVariableHooks;

namespace {

std::atomic<std::int64_t> g_live_frames{0};

// Ends a frame's part in a backward, when LibTorch runs or, after an error, destroys it.
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

TapeRun::Filled replay_tape(RegionRecord& record, TapeRun& run, std::optional<std::uint32_t> slot,
                            TapeRun::Wants wants) {
  const auto start = std::chrono::steady_clock::now();
  auto values = run.fill(record.fills_region ? std::nullopt : slot, wants);
  if (record.stats) {
    const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - start;
    record.stats->replays.fetch_add(1);
    record.stats->replay_nanoseconds.fetch_add(time.count());
  }
  return values;
}

}  // namespace

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
  }
  at::Tensor call_unpack_hook() override { return frame_->unpack(number_); }

 private:
  std::shared_ptr<Frame> frame_;
  std::uint32_t number_ = 0;
  bool packed_ = false;
};

Frame::Frame(RegionRecord record) : record_(std::move(record)) {
  g_live_frames.fetch_add(1, std::memory_order_relaxed);
  if (record_.stats) {
    for (const RegionInput& input : record_.inputs) {
      record_.stats->kept_bytes.fetch_add(input.kept_bytes());
      counted_storages_.insert(input.storage());
    }
  }
}

Frame::~Frame() { g_live_frames.fetch_sub(1, std::memory_order_relaxed); }

std::int64_t Frame::live_count() { return g_live_frames.load(); }

std::unique_ptr<SavedVariableHooks> Frame::make_slot() {
  return std::make_unique<Slot>(shared_from_this());
}

std::uint32_t Frame::record(const at::Tensor& tensor) {
  TensorRecord saved(tensor, record_.check_options());
  if (record_.trace_builder) {
    record_.trace_builder->need(memory_of(tensor));
  }
  const bool is_recorded = record_.recorder && record_.recorder->is_on_its_thread();
  const Tape::Tensor place = is_recorded ? record_.recorder->slot(tensor) : Tape::Tensor{};
  const MutexLock lock(mutex_);
  if (record_.tape) {
    if (!is_recorded) {
      const auto slot = static_cast<std::uint32_t>(record_.tape->slots.size());
      record_.tape->held.emplace(slot, KeptResult(tensor, /*offload=*/false));
    }
    record_.tape->slots.push_back(place);
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

bool Frame::complete_forward(bool may_pack) {
  if (record_.state.rng) {
    record_.state.rng->complete();
  }
  if (record_.outside_reads) {
    record_.outside_reads->complete();
  }
  if (record_.trace_builder) {
    record_.trace_builder->complete(record_.stats.get());
    record_.trace_builder.reset();
  }
  std::optional<TapeUses> uses;
  if (record_.recorder) {
    const std::vector<bool> alive = alive_now();
    std::exchange(record_.recorder, nullptr)->complete(alive, may_pack, record_.stats.get());
    uses.emplace(*record_.tape, alive);
  }
  const MutexLock lock(mutex_);
  tape_uses_ = std::move(uses);
  record_.forward_completed = true;
  counted_storages_ = {};
  return std::find(alive_.begin(), alive_.end(), true) != alive_.end();
}

at::Tensor Frame::unpack(std::uint32_t slot) {
  const Request request = current_request();
  const std::shared_ptr<Session> session = open(request);
  RecomputedTensor value;
  {
    const MutexLock lock(mutex_);
    fill(*session, slot);
    value = session->take(slot, request.backward);
  }
  session->marks().order_use(value.tensor);
  if (request.session.kind == SessionId::Kind::kRead) {
    end_session(request.session);
  }
  check_unchanged(slot, value);
  return std::move(value.tensor);
}

void Frame::check_unchanged(std::uint32_t slot, const RecomputedTensor& value) const {
  if (value.tensor._version() == value.version || record_.allow_external_mutation) {
    return;
  }
  const TensorRecord& saved = record_.slots[slot];
  throw MutationError(c10::str(
      "[checkpoint] region '", record_.name,
      "': one of the variables needed for gradient computation has been modified by an inplace "
      "operation: slot ",
      slot, " (result of ", saved.producer(), "), ", saved.metadata().to_string(),
      ", was recomputed at version ", value.version, " and is now at version ",
      value.tensor._version(), ". Change a clone instead"));
}

std::shared_ptr<Session> Frame::find(SessionId id) {
  for (const auto& session : sessions_) {
    if (session->id() == id) {
      return session;
    }
  }
  return nullptr;
}

std::shared_ptr<Session> Frame::open(const Request& request) {
  std::shared_ptr<Session> session;
  {
    const MutexLock lock(mutex_);
    if ((session = find(request.session))) {
      return session;
    }
    session = std::make_shared<Session>(request.session);
    sessions_.push_back(session);
  }
  if (request.group) {
    request.group->add_session(weak_from_this());
  } else if (request.session.kind == SessionId::Kind::kBackward) {
    auto end = std::make_shared<SessionEnd>(weak_from_this(), request.session);
    hooks_internal::at_backward_end([end = std::move(end)] { end->finish(); });
  }
  return session;
}

bool Frame::wants(const Session& session, std::uint32_t slot) const {
  return alive_[slot] && session.wants(slot);
}

bool Frame::wants_any(const Session& session) const {
  for (std::uint32_t slot = 0; slot < alive_.size(); ++slot) {
    if (wants(session, slot)) {
      return true;
    }
  }
  return false;
}

void Frame::fill(Session& session, std::optional<std::uint32_t> slot) {
  while (!slot || !session.has(*slot)) {
    if (session.replaying == std::this_thread::get_id()) {
      throw CheckpointError(c10::str(
          "[checkpoint] region '", record_.name,
          "': its recomputation asks for a tensor that it is to supply; its code must not read "
          "tensors saved by its own earlier run"));
    }
    if (session.replaying != std::thread::id()) {
      replay_ended_.wait(mutex_);
      continue;  // that replay may have failed; then it is this thread's turn
    }
    if (slot) {
      session.restart_if_taken(*slot);
    }
    if (slot || wants_any(session)) {
      replay_into(session, slot);
    }
    if (!slot) {
      return;
    }
  }
}

TapeRun::Filled Frame::replay(Session& session, std::optional<std::uint32_t> slot) {
  if (record_.tape) {
    return replay_tape(record_, session.tape_run(record_), slot, [&](std::uint32_t other) {
      const MutexLock lock(mutex_);
      return other == slot || wants(session, other);
    });
  }
  std::vector<bool> wanted(record_.slots.size());
  {
    const MutexLock lock(mutex_);
    for (std::uint32_t other = 0; other < wanted.size(); ++other) {
      wanted[other] = other == slot || wants(session, other);
    }
  }
  const auto pass = std::make_shared<ReplayPass>(record_, std::move(wanted));
  pass->run();
  const bool is_last = session.id().kind == SessionId::Kind::kBackward &&
                       !hooks_internal::backward_info().keeps_graph;
  if (record_.trace && is_last) {
    record_.trace->drop_kept();
  }
  return pass->take_values();
}

void Frame::replay_into(Session& session, std::optional<std::uint32_t> slot) {
  session.replaying = std::this_thread::get_id();
  const absl::Cleanup done = [&] {
    session.replaying = std::thread::id();
    replay_ended_.notify_all();
  };
  TapeRun::Filled values;
  {
    mutex_.unlock();
    const absl::Cleanup relock = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.lock(); };
    values = replay(session, slot);
  }
  for (auto& [filled, value] : values) {
    if (alive_[filled]) {
      session.marks().mark(value.tensor);
      session.fill(filled, std::move(value));
    }
  }
}

void Frame::recompute_now(SessionId id) {
  const std::shared_ptr<Session> session = open(current_request());
  TORCH_INTERNAL_ASSERT(session->id() == id);
  const MutexLock lock(mutex_);
  fill(*session, std::nullopt);
}

void Frame::end_session(SessionId id) {
  std::shared_ptr<Session> ended;  // its tensors are freed after the lock
  const MutexLock lock(mutex_);
  const auto* const found = std::find_if(sessions_.begin(), sessions_.end(),
                                         [&](const auto& session) { return session->id() == id; });
  if (found != sessions_.end()) {
    ended = *found;
    sessions_.erase(found);
  }
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
  absl::InlinedVector<at::Tensor, 1> dropped;  // freed after the lock
  std::vector<Tape::Given> unneeded;           // likewise
  const MutexLock lock(mutex_);
  alive_[slot] = false;
  if (tape_uses_) {
    dead_slots_.push_back(slot);
    unneeded = take_unneeded();
  }
  for (const auto& session : sessions_) {
    dropped.push_back(session->drop(slot));
  }
}

}  // namespace reprise::engine_internal
