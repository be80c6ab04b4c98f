// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Effects happen once: keeps a replay from writing to tensors that existed before it.
//
// Note [Writes that are left out]: forward has done the write already, and the tensor still holds
// what it left there. So the replay leaves the operator out, or, if it has other results as well,
// runs it on copies. What the region reads after its last write to a tensor is then right. What it
// read before is overwritten, which is an error if it matters (StaleReads).
//
// Autograd, above the mode, takes note of the write all the same: it counts the version and changes
// the tensor's gradient edge. Both are put back as soon as the engine has control again.
#ifndef REPRISE_ENGINE_EFFECTS_REPLAY_EFFECTS_H_
#define REPRISE_ENGINE_EFFECTS_REPLAY_EFFECTS_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "reprise/engine/effects/stale_reads.h"
#include "reprise/engine/operators/interception.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/watch/replay_watch.h"

namespace reprise::engine_internal {

// Leaves an operator out that has no results but what it writes: they are its arguments as they
// are.
void leave_out(const OperatorCall& call);

// Lives for one replay, on its thread.
class ReplayEffects final : public OperatorInterceptor {
 public:
  // region: its name, for errors. watch: null if forward was not watched. Both must outlive this.
  ReplayEffects(const std::string& region, const ReplayWatch* watch)
      : region_(region), watch_(watch) {}

  // Storages, or so, that the replay will make.
  void reserve(std::size_t count) { inside_.reserve(count); }

  // The tensor is the replay's own.
  void adopt(const at::Tensor& tensor);
  // From here on it is to be left as it is, as tensors from outside are.
  void disown(StorageId memory);

  // Throws MutationError.
  void intercept(const OperatorCall& call) override;

  // The operator is not run: its results are supplied.
  void note_supplied(const OperatorCall& call);

  // Puts back what autograd has noted of writes that were left out, gradient edges included.
  void settle() override;

  // The tensor has been saved for backward.
  void note_save(std::uint32_t slot, const at::Tensor& tensor) {
    reads_.note_save(slot, storage_id_of(tensor));
    awaits_write_ = awaits_write_ || unset_.contains(storage_id_of(tensor));
  }

  // True if the operator that has saved tensors is still to write to one of them, as to the noise
  // of rrelu.
  bool awaits_write() const { return awaits_write_; }

  bool has_adopted(const at::Tensor& tensor) const {
    return adopted_.contains(storage_id_of(tensor));
  }
  bool has_made(const at::Tensor& tensor) const { return inside_.contains(storage_id_of(tensor)); }

  const StaleReads& reads() const { return reads_; }

  // True if a write to the tensor has been left out.
  bool has_left_out(const at::Tensor& tensor) const {
    return left_out_.contains(storage_id_of(tensor));
  }

 private:
  struct Untouched {
    at::Tensor tensor;
    std::int64_t version;
    torch::autograd::Edge edge;
  };

  absl::flat_hash_set<StorageId> adopted_;
  bool is_outside(const at::Tensor& tensor, const OperatorTraits& traits);
  // Those of the written arguments that are, or whose lists contain, tensors from outside.
  std::vector<std::uint32_t> outside_arguments(const OperatorCall& call);
  bool is_all_outside(const c10::IValue& argument, const OperatorTraits& traits);

  void run_inside(const OperatorCall& call);
  StorageIdList unset_targets(const OperatorCall& call) const;
  void note_unused(const OperatorCall& call);
  void give_statistics(const OperatorCall& call) const;
  void run_on_copies(const OperatorCall& call, const std::vector<std::uint32_t>& outside);
  c10::IValue copy_outside(const OperatorCall& call, std::uint32_t index);
  at::Tensor copy_for_write(const OperatorCall& call, std::uint32_t argument, std::uint32_t element,
                            const at::Tensor& tensor) const;

  // True if the operator told the host something in forward, and has done so again.
  bool tell_again(const OperatorCall& call);
  void keep_untouched(const at::Tensor& tensor);

  const std::string& region_;
  const ReplayWatch* const watch_;
  absl::flat_hash_set<StorageId> inside_;  // what the replay made
  absl::flat_hash_set<StorageId> disowned_;
  absl::flat_hash_set<StorageId> unset_;  // memory that nothing has been written to
  bool awaits_write_ = false;
  StaleReads reads_;
  std::vector<Untouched> untouched_;
  absl::flat_hash_set<StorageId> left_out_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_EFFECTS_REPLAY_EFFECTS_H_
