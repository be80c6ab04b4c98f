// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Writes that version counters do not show: of batch norms to their statistics, of fused
// optimizers, of others' operators that declare them.
//
// Note [Uncounted writes]: such an operator gets a kernel on the dispatch key BackendSelect, which
// is in effect on each thread, below autograd, and for which it has none. The kernel notes the
// storages that it writes to and runs the operator. Other operators pay nothing. A reader of memory
// from outside notes the moment, and asks later whether that memory has been written since. Replays
// do not count: what they write to memory from outside is forward's outcome again.
#ifndef REPRISE_ENGINE_OPERATORS_UNCOUNTED_WRITES_H_
#define REPRISE_ENGINE_OPERATORS_UNCOUNTED_WRITES_H_

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <optional>

namespace reprise::engine_internal {

// For error messages, after the description of a tensor.
inline constexpr char kWrittenUncounted[] =
    ", which an operator that counts no version (a batch norm in training, a fused optimizer) has "
    "written since forward read it";

// The number of uncounted writes that the process has made. Wraps around.
using WriteMoment = std::uint32_t;

WriteMoment current_write_moment() noexcept;

// Returns whether `one` is after `other`.
inline bool is_after(WriteMoment one, WriteMoment other) {
  return static_cast<std::int32_t>(one - other) > 0;
}

// Returns the moment of the last uncounted write to the storage, if there was any.
std::optional<WriteMoment> last_uncounted_write(const c10::StorageImpl* storage);

// Each returns whether the storage, or the tensor's memory, has been written so after that moment.
bool is_written_uncounted_since(const c10::StorageImpl* storage, WriteMoment moment);
bool is_written_uncounted_since(const at::Tensor& tensor, WriteMoment moment);

// From now on, such writes of all threads are noted. Called often.
void observe_uncounted_writes();

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_UNCOUNTED_WRITES_H_
