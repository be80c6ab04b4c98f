// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The statistics of batch norms in evaluation, as a region in saved-tensor hooks has saved them.
//
// Note [Saved under hooks]: a write that counts no version is visible in the tensors that plain
// autograd has saved before it, but not in the copies that a user's hooks have made. Hooks around a
// region never receive the tensors that the region saves, so the region decides: in hooks, a saved
// tensor holds the contents of the save. Memory that the replay fills again does so by itself; of
// statistics, forward copies the contents that an operator reads.
#ifndef REPRISE_ENGINE_CHECKS_SAVED_STATISTICS_H_
#define REPRISE_ENGINE_CHECKS_SAVED_STATISTICS_H_

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/engine/checks/saved_tensor_record.h"
#include "reprise/engine/operators/uncounted_writes.h"

namespace reprise::engine_internal {

// Thread-safe.
class SavedStatistics {
 public:
  // An operator reads statistics. contents: a copy of what the operator finds there.
  void note_read(const at::Tensor& tensor, at::Tensor contents) ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns the contents of `saved` when autograd saved it, which must not be modified; undefined
  // if no operator has read them. recomputed: has its sizes, strides and offset.
  at::Tensor find(const SavedTensorRecord& saved, const at::Tensor& recomputed) const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Read {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // prevents the reuse of its address
    std::int64_t offset;
    std::int64_t version;
    std::optional<WriteMoment> written;  // the last uncounted write before it
    WriteMoment moment;
    at::Tensor contents;
  };

  mutable Mutex mutex_;
  std::vector<Read> reads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_CHECKS_SAVED_STATISTICS_H_
