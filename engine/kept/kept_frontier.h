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
#ifndef REPRISE_ENGINE_KEPT_KEPT_FRONTIER_H_
#define REPRISE_ENGINE_KEPT_KEPT_FRONTIER_H_

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "reprise/policies/checkpoint_policy.h"

namespace reprise::engine_internal {

// The results of an operator have taken the place of one with this decision.
inline void inherit_decision(CheckpointPolicy& decision, CheckpointPolicy replaced) {
  if (!keeps(decision) || (is_must(replaced) && !is_must(decision))) {
    decision = replaced;
  }
}

// Lives as long as a region's forward, on its thread.
template <class ValueId, class OperatorId>
class KeptFrontier {
 public:
  // The record of the region's operators.
  class Record {
   public:
    virtual ~Record() = default;
    // Returns the retained tensor of a value that may give way; undefined for others.
    virtual at::Tensor replaceable(ValueId value) const = 0;
    virtual bool is_kept(ValueId value) const = 0;
    virtual std::int64_t bytes_of(ValueId value) const = 0;
    // Returns whether replays supply the operator's results, or need none of them.
    virtual bool is_served(OperatorId op) const = 0;
    // Returns whether the value, which `op` has made and nobody has changed, may be retained.
    virtual bool may_keep(OperatorId op, ValueId value, const at::Tensor& tensor) const = 0;
    virtual void keep_instead(OperatorId op, ValueId value, const at::Tensor& tensor) = 0;
    // Returns whether an operator has read the value.
    virtual bool is_read(ValueId value) const = 0;
    // `readers` have taken the value's place.
    virtual void release(ValueId value, const std::vector<OperatorId>& readers) = 0;
    // Returns the size of the values that autograd has saved and the region does not retain.
    virtual std::int64_t dropped_bytes() const = 0;
    // Returns whether a retained value may be computed again though the policy saves it.
    virtual bool may_drop(ValueId value) const = 0;
    virtual bool is_cheap(ValueId value) const = 0;
  };

  // The result of an operator, as long as it exists.
  struct Result {
    ValueId value;
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
  };
  using Results = absl::InlinedVector<Result, 2>;

  // record: must outlive this.
  explicit KeptFrontier(Record& record) : record_(record) {}

  // The value is retained, and is of no use if no operator reads it.
  void add(ValueId value) {
    if (!fixed_.contains(value) && readers_.try_emplace(value).second) {
      candidates_.push_back(value);
    }
  }
  // The operator, whose decision is final, reads a retained value.
  void add_reader(ValueId value, OperatorId op) {
    add(value);
    if (const auto found = readers_.find(value); found != readers_.end()) {
      found->second.push_back({op, record_.is_served(op)});
    }
  }
  // The operator is such a reader, and replays run it.
  void add_results(OperatorId op, Results results) { results_.emplace(op, std::move(results)); }

  // To be called between operators; is_over: for the last time.
  void advance(bool is_over) {
    const std::size_t known_stuck = stuck_.size();
    std::size_t remaining = 0;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      const ValueId value = candidates_[i];
      if (is_settled(value, is_over)) {
        readers_.erase(value);
      } else {
        candidates_[remaining++] = value;
      }
    }
    candidates_.resize(remaining);
    if (stuck_.size() > known_stuck) {
      drop_excess(std::exchange(stuck_, {}));
    }
  }

  // Releases some of `extra`, which are retained though autograd has not saved them, if they are
  // larger than the values that the region drops: then it would need more memory than without
  // checkpointing. Returns whether it has released any.
  bool drop_excess(std::vector<ValueId> extra) {
    std::erase_if(extra, [this](ValueId value) { return !record_.may_drop(value); });
    std::int64_t excess = -record_.dropped_bytes();
    for (const ValueId value : extra) {
      excess += record_.bytes_of(value);
    }
    const bool is_excessive = excess > 0;
    if (is_excessive) {
      std::stable_partition(extra.begin(), extra.end(),
                            [this](ValueId value) { return !record_.is_cheap(value); });
    }
    for (; excess > 0 && !extra.empty(); extra.pop_back()) {
      excess -= record_.bytes_of(extra.back());
      record_.release(extra.back(), {});
    }
    stuck_ = std::move(extra);
    return is_excessive;
  }

 private:
  struct Reader {
    OperatorId op;
    bool was_served;  // when it ran
  };
  using Readers = absl::InlinedVector<Reader, 2>;

  struct Replacement {
    OperatorId op;
    ValueId value;
    at::Tensor tensor;
  };

  // Returns whether the value has given way, or never will.
  bool is_settled(ValueId value, bool is_over) {
    if (const at::Tensor retained = record_.replaceable(value); !retained.defined()) {
      return true;
    } else if (!is_over && retained.storage().use_count() > 1) {
      return false;
    }
    const Readers readers = std::move(readers_.at(value));
    if (const auto replacements = find_replacements(value, readers)) {
      for (const Replacement& replacement : *replacements) {
        keep(replacement);
      }
      std::vector<OperatorId> ops;
      std::transform(readers.begin(), readers.end(), std::back_inserter(ops),
                     [](const Reader& reader) { return reader.op; });
      record_.release(value, ops);
    } else {
      stuck_.push_back(value);
    }
    return true;
  }

  std::optional<std::vector<Replacement>> find_replacements(ValueId value,
                                                            const Readers& readers) const {
    std::vector<Replacement> replacements;
    std::int64_t bytes = 0;
    for (const auto& [op, was_served] : readers) {
      if (was_served || record_.is_served(op)) {
        continue;
      }
      const auto results = results_.find(op);
      if (results == results_.end()) {
        return std::nullopt;
      }
      for (const Result& result : results->second) {
        const std::int64_t size = record_.bytes_of(result.value);
        if (size == 0 || record_.is_kept(result.value) || is_among(replacements, result.value)) {
          continue;
        }
        at::Tensor tensor = lock(result);
        if (!tensor.defined() || !record_.may_keep(op, result.value, tensor)) {
          return std::nullopt;
        }
        bytes += size;
        replacements.push_back({op, result.value, std::move(tensor)});
      }
    }
    return bytes <= record_.bytes_of(value) ? std::optional(std::move(replacements)) : std::nullopt;
  }

  static at::Tensor lock(const Result& result) {
    auto tensor = result.tensor.lock();
    return tensor ? at::Tensor(std::move(tensor)) : at::Tensor();
  }

  static bool is_among(const std::vector<Replacement>& replacements, ValueId value) {
    return std::any_of(replacements.begin(), replacements.end(),
                       [value](const Replacement& other) { return other.value == value; });
  }

  void keep(const Replacement& replacement) {
    if (record_.is_read(replacement.value)) {
      fixed_.insert(replacement.value);  // its readers so far are unknown
    }
    record_.keep_instead(replacement.op, replacement.value, replacement.tensor);
  }

  Record& record_;
  std::vector<ValueId> candidates_;
  absl::flat_hash_map<ValueId, Readers> readers_;
  absl::flat_hash_map<OperatorId, Results> results_;  // of readers that replays run
  absl::flat_hash_set<ValueId> fixed_;                // never give way
  std::vector<ValueId> stuck_;                        // without an owner or a replacement
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_KEPT_KEPT_FRONTIER_H_
