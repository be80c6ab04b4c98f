// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/checks/saved_statistics.h"

#include <algorithm>
#include <utility>

#include "reprise/engine/operators/storage_id.h"

namespace reprise::engine_internal {

void SavedStatistics::note_read(const at::Tensor& tensor, at::Tensor contents) {
  Read read{.storage = weak_storage_of(tensor),
            .offset = tensor.storage_offset(),
            .version = version_of(tensor),
            .written = last_uncounted_write(storage_of(tensor)),
            .moment = current_write_moment(),
            .contents = std::move(contents)};
  const MutexLock lock(mutex_);
  reads_.push_back(std::move(read));
}

at::Tensor SavedStatistics::find(const SavedTensorRecord& saved,
                                 const at::Tensor& recomputed) const {
  const MutexLock lock(mutex_);
  const auto found = std::find_if(reads_.begin(), reads_.end(), [&](const Read& read) {
    return read.storage == saved.storage() && read.offset == recomputed.storage_offset() &&
           read.contents.sizes() == recomputed.sizes() && read.version == saved.version() &&
           !(read.written && is_after(*read.written, saved.moment())) &&
           !is_after(saved.moment(), read.moment);
  });
  return found == reads_.end() ? at::Tensor() : found->contents;
}

}  // namespace reprise::engine_internal
