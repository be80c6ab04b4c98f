// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The results that a policy saves, moved towards the tensors that autograd saves.
//
// Note [Frontier]: a policy answers for an operator before anyone knows which results autograd will
// save. If it saves a matmul whose result only a relu reads, autograd saves relu's result: with the
// matmul's retained, a region needs more memory than a run without checkpointing, and its replay
// runs relu. So a retained result that autograd has not saved gives way
// - to nothing, if no replay runs an operator that reads it;
// - to the results of the operators that read it, if they are no larger and still exist.
// It does so when nobody else owns it, since no operator can read or save it any more, or at the
// end of forward. What takes its place may give way in turn. And if the values that cannot give way
// are larger than what the region drops, some are dropped as well, cheap ones first, unless the
// policy insists. Whatever is not retained can be computed again, so that a later change of mind,
// such as a write in place, costs time alone.
#ifndef REPRISE_ENGINE_TAPE_RECORDING_SAVED_FRONTIER_H_
#define REPRISE_ENGINE_TAPE_RECORDING_SAVED_FRONTIER_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "reprise/engine/tape/tape.h"

namespace reprise::engine_internal {

class TapeValues;

// Lives as long as a region's forward, on its thread.
class SavedFrontier {
 public:
  // Both must outlive this.
  SavedFrontier(Tape& tape, TapeValues& values) : tape_(tape), values_(values) {}

  // The value is retained, and is of no use if no operator reads it.
  void add(TapeValueId value) {
    if (!fixed_.contains(value) && readers_.try_emplace(value).second) {
      candidates_.push_back(value);
    }
  }
  // The last operator's decision is final. is_run: replays run it. results: its own.
  void note_last(bool is_run, c10::ArrayRef<c10::IValue> results);

  // To be called between operators; is_over: for the last time.
  void advance(bool is_over);

  // Releases some of `extra`, which are retained though autograd has not saved them, if they are
  // larger than the values that the region drops: then it would need more memory than without
  // checkpointing. Returns whether it has released any.
  bool drop_excess(std::vector<TapeValueId> extra);

  // Any value may be read unseen: none gives way.
  void set_unknown_readers(bool has_unknown) { has_unknown_readers_ = has_unknown; }

 private:
  struct Reader {
    TapeOperatorId op;
    bool was_served;  // when it ran
  };
  using Readers = absl::InlinedVector<Reader, 2>;

  // The result of an operator, as long as it exists.
  struct Result {
    TapeValueId value;
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
  };
  using Results = absl::InlinedVector<Result, 2>;

  struct Replacement {
    TapeOperatorId op;
    TapeValueId value;
    at::Tensor tensor;
  };

  // Returns the retained tensor of a value that may give way; undefined for others.
  at::Tensor replaceable(TapeValueId value) const;
  // Returns whether the value has given way, or never will.
  bool is_settled(TapeValueId value, bool is_over);
  std::optional<std::vector<Replacement>> find_replacements(TapeValueId value,
                                                            const Readers& readers) const;
  // Returns whether the value, which `op` has made and nobody has changed, may be retained.
  bool may_keep(TapeOperatorId op, TapeValueId value, const at::Tensor& tensor) const;
  void keep(const Replacement& replacement);
  // `readers` have taken the value's place.
  void release(TapeValueId value, const Readers& readers);
  // Returns whether a retained value may be computed again though the policy saves it.
  bool may_drop(TapeValueId value) const;
  // Returns the size of the values that autograd has saved and the region does not retain.
  std::int64_t dropped_bytes() const;
  bool is_kept(TapeValueId value) const { return tape_.given.contains(value); }
  const Tape::Operator& creator_of(TapeValueId value) const {
    return tape_.operators[tape_.values[value].op];
  }

  Tape& tape_;
  TapeValues& values_;
  std::vector<TapeValueId> candidates_;
  absl::flat_hash_map<TapeValueId, Readers> readers_;
  absl::flat_hash_map<TapeOperatorId, Results> results_;  // of readers that replays run
  absl::flat_hash_set<TapeValueId> fixed_;                // never give way
  std::vector<TapeValueId> stuck_;                        // without an owner or a replacement
  bool has_unknown_readers_ = false;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_RECORDING_SAVED_FRONTIER_H_
