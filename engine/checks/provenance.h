// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The operators and arguments that the tensors of a region have been computed from, as hashes. In a
// recomputation that runs other operators than forward, or the same ones on other numbers or in
// another relevant order, saved tensors have other hashes; operators that no saved tensor depends
// on make no difference.
//
// Note [Provenance]: each storage has a hash. An operator's hash combines its name, its arguments
// other than tensors, and the hashes and geometries of its tensor arguments; the hashes of its
// results and targets derive from it. The region's inputs are identified by their numbers,
// independently of the memory into which a store has fetched them. All other tensors from outside
// have the same hash: their identity is compared by memory (WatchedForward). A cast of a parameter
// has a hash of its own, as autocast may have cached it before the region or run it inside. If a
// result is of a Python class, the operator has made the tensors that hold its elements as well:
// the region's code may read them (DTensor.to_local()). Sparse and nested tensors are not followed;
// from outside, they are compared by object and version. Of those that the region makes, and of
// tensors of opaque layouts (MKL-DNN's), only the origin is known.
#ifndef REPRISE_ENGINE_CHECKS_PROVENANCE_H_
#define REPRISE_ENGINE_CHECKS_PROVENANCE_H_

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "reprise/base/ids/strong_id.h"
#include "reprise/base/threading/spare.h"
#include "reprise/engine/operators/interception.h"
#include "reprise/engine/operators/memory_table.h"
#include "reprise/engine/operators/storage_id.h"

namespace reprise::engine_internal {

// 0 if unknown.
using Provenance = std::uint64_t;

// The origin of a tensor that forward saves.
struct SlotProvenance {
  Provenance hash = 0;
  Provenance of_memory = 0;  // also 0 if the memory is from outside
  bool is_unset = false;     // uninitialised memory
  bool is_captured = false;  // neither an input nor made by the region
};

// Hashes of the memory that a forward or a recomputation has made. Lives on its thread.
class ProvenanceMap {
 public:
  // memory: numbers it. Must outlive this, or take_alive().
  explicit ProvenanceMap(MemoryTable& memory);
  ~ProvenanceMap();
  ProvenanceMap(const ProvenanceMap&) = delete;
  ProvenanceMap& operator=(const ProvenanceMap&) = delete;

  static constexpr std::uint32_t kNone = 0xffffffff;

  struct Entry {
    Provenance hash = 0;           // 0: no entry
    std::int64_t shift = 0;        // of offsets in the storage, against forward's
    std::int64_t version = 0;      // when it was last read or written
    std::uint32_t origin = kNone;  // see ReplayWatch
    bool is_unset = false;         // uninitialised since it was made
    bool is_factorys = false;      // of an operator on numbers, such as zeros
    bool is_left_over = false;     // see ReplayWatch
    bool is_input = false;         // not written since
  };
  // An entry when forward has ended.
  struct LeftOver {
    Entry entry;
    MemoryTable::WeakStorage storage;
  };

  // Returns false for tensors that are not identified by their memory.
  static bool is_followed(const at::Tensor& tensor);
  // Returns true for sparse and nested tensors: from outside, they are compared as objects.
  static bool is_object(const at::Tensor& tensor);

  // One call of an operator.
  struct Call {
    Provenance hash = 0;
    StorageIdList arguments;  // the memory of its tensors
    // The tensors that it reads and that were not made here. Valid until it runs.
    absl::InlinedVector<const at::Tensor*, 4> outside;
    // The tensors that it reads in memory of inputs, except parameters. Valid until it runs.
    absl::InlinedVector<const at::Tensor*, 2> inputs;
    // The parameters whose data was made here. Valid until it runs.
    absl::InlinedVector<const at::Tensor*, 1> parameters_inside;
    std::unique_ptr<std::list<at::Tensor>> of_dictionaries;  // retains elements of the three lists
    std::uint32_t origin = kNone;                            // the first among its arguments
    bool has_unknown = false;                                // an argument that was not made here
    bool reads_left_over = false;
    // It, or one before it, has a tensor whose elements are in other tensors, nobody says which.
    bool has_wrapper = false;
  };
  // Records the versions of the call's arguments.
  Call call_of(const OperatorCall& call);

  // The operator is about to run: records its targets.
  void note_writes(const OperatorCall& call, const Call& described, std::uint32_t origin);
  // It has run, on other values than forward's.
  void note_origin(std::span<const StorageId> targets, std::uint32_t origin);
  // The operator has run: records its results.
  void note_results(const OperatorCall& call, const Call& described, std::uint32_t origin);
  // An operator that makes views has run. Views of sparse and nested tensors have memory of unknown
  // origin.
  static bool views_opaque(const OperatorCall& call);  // to be called before it runs
  void note_views(const OperatorCall& call, std::uint32_t origin = kNone);
  // A cast of a parameter has run.
  void note_cast(const OperatorCall& call, std::uint32_t origin = kNone);
  // An operator under a PolicyBypassGuard is about to run, and has run: neither its targets nor its
  // results are followed.
  void note_hidden_writes(const OperatorCall& call);
  void note_hidden_results(const OperatorCall& call, std::uint32_t origin = kNone);
  // See OperatorInterceptor. No effect if the tensor's memory is known. Otherwise it gets the hash
  // of the saved memory, if that is known.
  void note_recomputed(const at::Tensor& tensor, StorageId saved, Provenance provenance);

  // The tensor is input number `input`, with offsets larger by `shift` than in forward. No effect
  // for a wrapper.
  void add_input(const at::Tensor& tensor, std::uint32_t input, std::int64_t shift);
  void add(const at::Tensor& tensor, const Entry& entry);
  void add_memory(MemoryTable::WeakStorage storage, const Entry& entry);
  // The sparse, nested or opaque tensor was made here.
  void add_object(const at::Tensor& tensor, std::uint32_t origin = kNone);

  // Returns true for a hash that tells nothing about the origin.
  static bool is_opaque(Provenance hash);

  // Returns null if the memory is unknown.
  const Entry* find(StorageId memory) const { return entry_of(memory); }
  // Returns the hash of a tensor that is saved; is_opaque() for sparse and nested tensors that are
  // no inputs. entry: of its memory, as find() returns it.
  Provenance of(const at::Tensor& tensor, const Entry* entry) const;
  // Returns the first entry of memory that is still in use for which matches(entry); null if none.
  const Entry* find_alive(absl::FunctionRef<bool(const Entry&)> matches) const;
  // Returns the entries of memory that is still in use, and clears the map.
  absl::flat_hash_map<StorageId, LeftOver> take_alive();

 private:
  Provenance of_argument(const c10::IValue& value, bool is_read, Call& call);
  Provenance of_argument(const at::Tensor& tensor, bool is_read, Call& call);
  Provenance of_object(const at::Tensor& tensor, bool is_read, Call& call);
  Provenance of_object(StorageId memory) const;
  Provenance of_dictionary(const c10::IValue& value, bool is_read, Call& call);
  Provenance of_tensor(const at::Tensor& tensor, const Entry* entry) const;
  Entry* entry_of(StorageId memory) const;
  // Adds it unless it is known.
  Entry& entry_for(const at::Tensor& tensor) {
    return buffers_->entries.grow_to(memory_->add(tensor));
  }

  // A store may fetch several inputs into one storage: they are then distinguished by their bytes.
  struct Input {
    StorageId memory;
    std::int64_t begin;
    std::int64_t end;
    Provenance hash;
    std::int64_t shift;
  };
  Provenance of_shared(const at::Tensor& tensor) const;
  void add_values(const at::Tensor& tensor, std::uint32_t origin);
  void add_parts(const at::Tensor& wrapper, const Entry& made);

  struct Buffers {
    void clear();
    std::size_t capacity() const { return entries.capacity(); }
    base_internal::IdVector<MemoryId, Entry> entries;  // without hashes for memory of others
    std::vector<Input> inputs;
  };
  static constinit thread_local base_internal::Spare<Buffers> t_spare_;
  void release();

  MemoryTable* memory_;               // null when forward has ended
  std::unique_ptr<Buffers> buffers_;  // likewise
  std::uint64_t random_calls_ = 0;
  bool has_unknown_parts_ = false;  // a result
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_CHECKS_PROVENANCE_H_
