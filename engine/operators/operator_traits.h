// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What an operator does to its arguments, from its schema, and where schemas are silent from a
// table.
//
// Note [Transfers]: collectives pair up between ranks in the order of their calls, so all ranks
// have to run the same ones in a replay. Which ones is found from what forward has run and saved,
// never from what happens to be alive when backward asks, which may differ between ranks. One that
// is run is run to its end: what c10d gives to wait for is waited for. wait_tensor() counts as an
// operator that writes its argument, as if it were that which brings the values.
#ifndef REPRISE_ENGINE_OPERATORS_OPERATOR_TRAITS_H_
#define REPRISE_ENGINE_OPERATORS_OPERATOR_TRAITS_H_

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace reprise::engine_internal {

// Whether an operator of that name (without overload) leaves the memory of its results as it is, as
// empty() does.
bool leaves_memory_as_it_is(std::string_view name);

// What an operator does between ranks. See Note [Transfers].
enum class Transfer : std::uint8_t {
  kNone,
  kCollective,  // each rank of a group calls it, and gets results
  kOneSided,    // ranks call it for different ends: send, recv_, gather_, barrier
  kWait,        // for the results of a functional collective
};

struct OperatorTraits {
  explicit OperatorTraits(const c10::OperatorHandle& op);

  // Those of `op`, kept for the calls to come.
  static const OperatorTraits& of(const c10::OperatorHandle& op);

  // Writes of which the schema says nothing, as batch-norm's to its running statistics: only in
  // training, and without a trace in version counters.
  bool writes_undeclared(c10::ArrayRef<c10::IValue> arguments) const;

  // The arguments that the call writes.
  const std::vector<std::uint32_t>& written(c10::ArrayRef<c10::IValue> arguments) const {
    static const std::vector<std::uint32_t> kNone;
    return !undeclared || writes_undeclared(arguments) ? written_arguments : kNone;
  }

  // The arguments that the call reads, and that such calls in training have written without a
  // trace.
  const std::vector<std::uint32_t>& read_statistics(c10::ArrayRef<c10::IValue> arguments) const {
    static const std::vector<std::uint32_t> kNone;
    return undeclared && !writes_undeclared(arguments) ? written_arguments : kNone;
  }

  bool may_write(std::uint32_t argument) const {
    return std::find(written_arguments.begin(), written_arguments.end(), argument) !=
           written_arguments.end();
  }

  std::vector<std::uint32_t> written_arguments;
  // For each result, the argument that it is (operators in place and with out=), if any.
  std::vector<std::optional<std::uint32_t>> result_arguments;
  // Has no result but such arguments.
  bool returns_only_arguments = false;
  // Has results, and no tensor among them, as item().
  bool tells_host = false;
  // A result is a view of an argument.
  bool is_view = false;
  // Changes the shape of its argument and nothing else, as squeeze_().
  bool is_inplace_view = false;
  bool is_random = false;
  // Of a dropout, if it is random: the argument that says how probable it is.
  std::optional<std::uint32_t> probability_argument;
  // Of a copy: the argument that says whether it may arrive later.
  std::optional<std::uint32_t> non_blocking_argument;
  bool is_cast = false;  // _to_copy
  bool is_elementwise = false;
  bool is_cheap = false;  // to compute again: elementwise, or a batch norm
  bool leaves_memory_as_it_is = false;
  // Results depend on no tensor but for its shape, dtype or device, and on no random number.
  bool is_factory = false;
  // Of a factory, if it takes tensors: zeros_like().
  bool makes_constants = false;
  bool fills_with_constant = false;  // what it writes: fill_(), zero_()
  bool overwrites = false;           // what it writes, whatever was there before
  // Its other results do not depend on what it writes to: it overwrites that, or is a batch norm
  // with its statistics.
  bool ignores_targets = false;
  // Says nothing of the computation: detach, profiler ranges, record_stream.
  bool is_bookkeeping = false;
  // LibTorch's own operators count each declared write in the version counter.
  bool is_aten = false;
  Transfer transfer = Transfer::kNone;
  // Its results are not there before wait_tensor() has been called for them.
  bool gives_in_flight = false;
  bool undeclared = false;
  // Only with undeclared writes: the argument that says whether there are any.
  std::optional<std::uint32_t> training_argument;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_OPERATOR_TRAITS_H_
