// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The effect of an operator on its arguments, from its schema, and, if the schema is silent, from a
// table.
//
// Note [Transfers]: collectives pair up between ranks in the order of their calls, so all ranks
// have to run the same ones in a replay. The set is determined by the operators and saved tensors
// of forward, never by the slots alive in backward, which may differ between ranks. A collective
// that runs is completed: the replay waits for c10d's Work. wait_tensor() counts as an operator
// that writes its argument, as if it delivered the values. A backend may count a write on a thread
// of its own, when the data arrives (Gloo, gathering into one tensor): the version of a written
// tensor is known when it is used next.
#ifndef REPRISE_ENGINE_OPERATORS_OPERATOR_TRAITS_H_
#define REPRISE_ENGINE_OPERATORS_OPERATOR_TRAITS_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace reprise::engine_internal {

// Returns whether an operator of that name (without overload) leaves the memory of its results
// uninitialised, like empty().
bool leaves_memory_as_it_is(std::string_view name);

// Returns whether an operator writes to arguments without counting a version: to running
// statistics, which schemas mostly omit; as a fused optimizer; or, not being LibTorch's own, as it
// declares. Not those that fill what FSDP has gathered, and not c10d's: what they write is there
// again in each run.
bool counts_no_version(const c10::FunctionSchema& schema);

// Communication of an operator between ranks. See Note [Transfers].
enum class Transfer : std::uint8_t {
  kNone,
  kCollective,  // each rank of a group calls it, and receives results
  kOneSided,    // ranks call it for different purposes: send, recv_, gather_, barrier
  kWait,        // for the results of a functional collective
};

struct OperatorTraits {
  explicit OperatorTraits(const c10::OperatorHandle& op);

  // Returns the traits of `op`, cached for later calls.
  static const OperatorTraits& of(const c10::OperatorHandle& op);

  // Batch-norm's writes to its running statistics, which most schemas do not declare: in training
  // only, and not counted by version counters.
  bool writes_undeclared(c10::ArrayRef<c10::IValue> arguments) const;
  // Returns whether the call, in evaluation, leaves targets as they are: batch norms their
  // statistics, rrelu_with_noise() its noise, though the schema declares a write.
  bool leaves_targets(c10::ArrayRef<c10::IValue> arguments) const;

  // Returns whether the data that it writes may arrive after it has returned.
  bool delivers_later() const {
    return transfer == Transfer::kCollective || transfer == Transfer::kOneSided;
  }

  // Returns the arguments that the call writes.
  const std::vector<std::uint32_t>& written(c10::ArrayRef<c10::IValue> arguments) const {
    static const std::vector<std::uint32_t> kNone;
    return !undeclared || writes_undeclared(arguments) ? written_arguments : kNone;
  }

  // Returns the arguments that the call reads and that such calls in training write without
  // counting a version.
  const std::vector<std::uint32_t>& read_statistics(c10::ArrayRef<c10::IValue> arguments) const {
    static const std::vector<std::uint32_t> kNone;
    return undeclared && !writes_undeclared(arguments) ? written_arguments : kNone;
  }

  bool may_write(std::uint32_t argument) const {
    return std::find(written_arguments.begin(), written_arguments.end(), argument) !=
           written_arguments.end();
  }

  std::vector<std::uint32_t> written_arguments;
  // For each result, the argument that it is identical to (in-place and out= operators), if any.
  std::vector<std::optional<std::uint32_t>> result_arguments;
  // All results are such arguments.
  bool returns_only_arguments = false;
  // Has results, but no tensor among them, like item().
  bool is_host_read = false;
  // A result is a view of an argument.
  bool is_view = false;
  // Changes only the shape of its argument, like squeeze_().
  bool is_inplace_view = false;
  bool is_random = false;
  // Not LibTorch's own, which all have the tag: whether it has drawn, its generator shows.
  bool may_draw = false;
  // For a random dropout: the argument with its probability.
  std::optional<std::uint32_t> probability_argument;
  // For a copy: the argument that makes it asynchronous.
  std::optional<std::uint32_t> non_blocking_argument;
  bool is_cast = false;  // _to_copy
  bool is_elementwise = false;
  bool is_cheap = false;  // to recompute: elementwise, or a batch norm
  bool leaves_memory_as_it_is = false;
  // Of some results it initialises a part: a workspace, or, of sequences, what is beyond their
  // ends.
  bool leaves_parts_unset = false;
  bool is_loss_of_sequences = false;
  // Results depend on no tensor except for its shape, dtype or device, and on no random number.
  bool is_factory = false;
  // A factory that takes a tensor and fills its result with a constant: ones_like(), new_full().
  bool makes_constants = false;
  bool fills_with_constant = false;  // its target: fill_(), zero_()
  bool overwrites = false;           // its target, independently of the earlier contents
  // Its other results do not depend on its target: it overwrites that, or is a batch norm with its
  // statistics.
  bool ignores_targets = false;
  // Without influence on the computation: detach, profiler ranges, record_stream.
  bool is_bookkeeping = false;
  // LibTorch's own operators count their declared writes in the version counter, with few
  // exceptions: see counts_no_version().
  bool is_aten = false;
  Transfer transfer = Transfer::kNone;
  // Its results are incomplete until wait_tensor() has been called for them.
  bool gives_in_flight = false;
  bool undeclared = false;  // writes to running statistics
  // Only with writes: the argument that determines whether there are any.
  std::optional<std::uint32_t> training_argument;

 private:
  // Depends on `is_bookkeeping`.
  void find_writes(const c10::FunctionSchema& schema);
  // Depends on `transfer` and on the writes.
  void find_aliases(const c10::FunctionSchema& schema);
  // Depends on all of these.
  void classify(const c10::OperatorHandle& op);
};

// A thread's cache in front of those of the process.
class RecentTraits {
 public:
  const OperatorTraits& of(const c10::OperatorHandle& op) {
    // The address of the name is valid as long as the operator exists.
    const void* const key = &op.operator_name();
    Entry& entry = entries_[reinterpret_cast<std::uintptr_t>(key) / 64 % entries_.size()];
    if (entry.key != key) {
      entry = {key, &known(key, op)};
    }
    return *entry.traits;
  }

 private:
  struct Entry {
    const void* key = nullptr;
    const OperatorTraits* traits = nullptr;
  };
  static const OperatorTraits& known(const void* key, const c10::OperatorHandle& op);

  std::array<Entry, 64> entries_ = {};
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_OPERATOR_TRAITS_H_
