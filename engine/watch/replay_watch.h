// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Matches the operators of a function region's replay with its forward's.
#ifndef REPRISE_ENGINE_WATCH_REPLAY_WATCH_H_
#define REPRISE_ENGINE_WATCH_REPLAY_WATCH_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/operator_name.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "reprise/engine/operators/interception.h"
#include "reprise/engine/operators/memory_table.h"
#include "reprise/engine/outside/replay_memory.h"
#include "reprise/engine/watch/replay_origins.h"
#include "reprise/engine/watch/watched_forward.h"
#include "reprise/rng/rng_fork_guard.h"

namespace reprise::engine_internal {

// Lives for one replay, on its thread.
class ReplayWatch final : public OperatorInterceptor {
 public:
  // All must outlive this. checks_outside: false if tensors from outside may have changed.
  // preserves_rng: generators must be in forward's state after each operator, and are restored.
  ReplayWatch(const WatchedForward& forward, MemoryTable& table, ReplayMemory& memory,
              bool checks_outside, bool preserves_rng)
      : forward_(forward),
        memory_(memory),
        checks_outside_(checks_outside),
        preserves_rng_(preserves_rng),
        made_(table),
        inputs_(forward.input_samples) {
    if (forward.inside_samples != nullptr) {
      inside_.emplace(*forward.inside_samples);
    }
  }

  // inputs: the region's inputs in the replay. next: the interceptor that runs the operators.
  void start(std::span<const at::Tensor> inputs, OperatorInterceptor& next);
  // After start(). Hooks or a store have returned the input with this number, which outlives the
  // replay. is_exact: it has the bytes that a store has read.
  void note_copy(std::uint32_t input, const at::Tensor& copy, bool is_exact);
  // After start(). What depends on that memory, which an earlier run of this replay's code has left
  // outside without contents, is an error.
  void note_stand_in(c10::weak_intrusive_ptr<c10::StorageImpl> storage);

  void intercept(const OperatorCall& call) override;
  void settle() override { inner_->settle(); }
  void note_recomputed(const at::Tensor& tensor, StorageId saved, Provenance provenance) override {
    made_.note_recomputed(tensor, saved, provenance);
  }
  at::Tensor state_before(const OperatorCall& call, const at::Tensor& argument) override;

  // The operator that is intercepted now has run: it has not been left out.
  void note_run() { has_run_ = true; }

  // Restores the generators that forward has not drawn from, or not yet.
  void put_generators_back() { drawn_.clear(); }

  // A tensor has been saved for backward, in a slot that is wanted.
  void note_save(SlotId slot, const at::Tensor& tensor);
  const StaleSlots& stale_slots() const { return stale_slots_; }
  const std::string& describe(std::uint32_t origin) const { return origins_.description(origin); }

  // About the operator that runs now.
  // Returns its number in forward; none if forward has not run it, or not yet.
  std::optional<std::uint32_t> matched() const { return matched_; }
  // Returns its number in the replay, from 1.
  std::uint32_t calls() const { return calls_; }
  // Returns forward's host read; null if it read no tensors from outside.
  const std::vector<c10::IValue>* host_read_of_forward() const;
  // Forward still runs and has not reached it; or forward has no such operator, which its saved
  // results will reveal.
  bool is_ahead() const { return !matched_ && !forward_.is_complete; }
  // Returns the contents of a tensor from outside before forward's operator; undefined if unknown.
  at::Tensor before(std::uint32_t argument, std::uint32_t element) const;

  // After the replay. Returns an error message if a tensor still exists that the replay has made
  // from a tensor that forward's region has kept (a sum that the code adds to by assignment), or
  // from other values than forward read; or, ahead of a forward that still runs, in place of a
  // tensor from outside, which forward will not find then.
  std::optional<std::string> wrongly_kept() const;

  // About a tensor that is saved now.
  Provenance provenance_of(const at::Tensor& tensor);
  // Returns an error message: the operator that made it differ from forward's.
  std::string origin_of(const at::Tensor& tensor) const;

 private:
  // The hash of memory that a replay has found or left different from forward: not a hash of
  // forward.
  static constexpr Provenance kChanged = 0x9a3c51f7;

  // About an operator that is about to run.
  struct Draw {
    at::Generator generator;
    std::uint64_t position_after;  // in forward
    std::vector<at::Tensor> written;
  };

  std::optional<std::uint32_t> match(Provenance hash);
  std::optional<std::uint32_t> find(Provenance hash);
  at::Tensor before_of(std::optional<std::uint32_t> op, std::uint32_t argument,
                       std::uint32_t element) const;
  void intercept_hidden(const OperatorCall& call);
  void intercept_followed(const OperatorCall& call);
  ProvenanceMap::Call describe(const OperatorCall& call);
  // Returns whether it is one, and was unknown before.
  bool add_left_over(const at::Tensor& tensor);
  void add_left_over_parts(const OperatorCall& call);
  bool is_wait_for_left_over(const OperatorCall& call);
  void match_wait(const OperatorCall& call);
  std::optional<Draw> draw_of(const OperatorCall& call);
  void compare_draw(const OperatorCall& call, const Draw& draw);
  void compare_wrapped(const OperatorCall& call, const std::vector<at::Tensor>& written);
  void note_read_ahead(const ProvenanceMap::Call& described);
  std::string describe_call(const OperatorCall& call) const;
  void compare_reads(const OperatorCall& call, const ProvenanceMap::Call& described);
  void compare_inputs(const OperatorCall& call, const ProvenanceMap::Call& described);
  void compare_inside(const OperatorCall& call);
  bool is_overwritten(const WatchedForward::Read& read, const at::Tensor& tensor);
  void find_uncounted(std::span<const at::Tensor> inputs);
  void compare_uncounted(const OperatorCall& call);
  std::uint32_t origin_for(const OperatorCall& call, const ProvenanceMap::Call& described);
  std::uint32_t origin_at(StorageId memory) const;
  std::uint32_t origin_of_arguments(const ProvenanceMap::Call& described) const;
  std::uint32_t stale_origin_of(const OperatorCall& call);
  // An operator with arguments of that origin has run, or has got its results otherwise. Returns
  // the origin of its outcome.
  std::uint32_t origin_after(const OperatorCall& call, std::uint32_t origin);

  const WatchedForward& forward_;
  ReplayMemory& memory_;
  const bool checks_outside_;
  const bool preserves_rng_;
  OperatorInterceptor* inner_ = nullptr;
  ProvenanceMap made_;
  WrappedWrites writes_;
  // Memory of inputs and from outside, written since forward began. See Note [Uncounted writes].
  absl::flat_hash_set<std::uint32_t> looked_at_;  // of the tensors from outside
  InputComparison inputs_;
  std::optional<InsideComparison> inside_;
  absl::flat_hash_map<StorageId, WriteMoment> uncounted_;
  std::uint32_t calls_ = 0;
  std::uint32_t next_ = 0;  // index among forward's operators
  std::optional<std::uint32_t> matched_;
  bool has_run_ = false;  // the operator: it was neither supplied nor left out
  // Of the operator that runs: an error message if it reads a tensor from outside that differs from
  // forward's.
  std::optional<std::string> change_;
  at::Tensor other_;                // that tensor, if it is another one
  bool has_other_version_ = false;  // which change_ says
  std::optional<absl::flat_hash_map<Provenance, std::vector<std::uint32_t>>> positions_;
  // By generator, each retained.
  absl::flat_hash_map<const c10::GeneratorImpl*, std::unique_ptr<RngForkGuard>> drawn_;

  ReplayOrigins origins_;
  StaleSlots stale_slots_;
  struct Other {
    WatchedForward::WeakMemory memory;
    std::uint32_t origin;
  };
  std::vector<Other> others_;  // that the replay has read from outside in place of forward's
  // From outside, by operators that forward has not reached.
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> read_ahead_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_WATCH_REPLAY_WATCH_H_
