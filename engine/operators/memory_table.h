// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Numbers the memory that the operators of a region's forward, or of its replay, meet. All records
// of one run share the table, and keep their own facts in vectors by these numbers.
#ifndef REPRISE_ENGINE_OPERATORS_MEMORY_TABLE_H_
#define REPRISE_ENGINE_OPERATORS_MEMORY_TABLE_H_

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "reprise/base/ids/strong_id.h"
#include "reprise/base/threading/spare.h"
#include "reprise/engine/operators/storage_id.h"

namespace reprise::engine_internal {

using MemoryId = base_internal::StrongId<class MemoryTag>;

// For use by one thread. References storages, and tensors without one, weakly, which prevents
// the reuse of their addresses and retains no elements.
class MemoryTable {
 public:
  using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct Memory {
    StorageId id;
    WeakStorage storage;  // null for a tensor that is not identified by a storage
    WeakTensor tensor;    // null for others
  };

  MemoryTable();
  ~MemoryTable();
  MemoryTable(const MemoryTable&) = delete;
  MemoryTable& operator=(const MemoryTable&) = delete;

  // Reserves space for about this many.
  void reserve(std::size_t count);

  // Returns none for memory that is not in the table.
  MemoryId find(StorageId memory) const {
    return last_.first == memory ? last_.second : look_up(memory);
  }
  // These return the number of memory that may be new: of storage_id_of(tensor), of a storage, and
  // of a tensor regardless of its storage.
  MemoryId add(const at::Tensor& tensor);
  MemoryId add(WeakStorage storage);
  MemoryId add_object(const at::Tensor& tensor);

  const Memory& operator[](MemoryId id) const { return buffers_->memories[id]; }
  std::size_t size() const { return buffers_->memories.size(); }

 private:
  struct Buffers {
    void clear();
    std::size_t capacity() const { return memories.capacity(); }
    absl::flat_hash_map<StorageId, MemoryId> ids;
    base_internal::IdVector<MemoryId, Memory> memories;
  };
  static constinit thread_local base_internal::Spare<Buffers> t_spare_;

  template <class MakeMemory>
  MemoryId add(StorageId memory, const MakeMemory& make);
  MemoryId look_up(StorageId memory) const;

  std::unique_ptr<Buffers> buffers_;
  // The last look-up: an operator's result is its reader's argument, and saved.
  mutable std::pair<StorageId, MemoryId> last_{nullptr, {}};
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_MEMORY_TABLE_H_
