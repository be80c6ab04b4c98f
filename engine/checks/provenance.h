// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// From which operators and arguments the tensors of a region have been computed, as hashes. A
// recomputation that runs other operators than forward did, or the same ones on other numbers or in
// an order that matters, gives what it saves other hashes; operators on which nothing saved depends
// make no difference.
//
// Note [Provenance]: a storage has a hash. An operator's hash is made of its name, of its arguments
// that are no tensors, and of the hashes and geometries of those that are; its results get hashes
// made of that, and so does what it writes to. The region's inputs are told apart by their numbers,
// so that it does not matter where a store has brought them back to. All other tensors from outside
// have the same hash: whether forward and recomputation read the same ones is told by the memory
// itself (WatchedForward). A cast of a parameter has a hash of its own, as autocast may have cached
// it before the region or run it inside. Sparse and nested tensors are not followed.
#ifndef REPRISE_ENGINE_CHECKS_PROVENANCE_H_
#define REPRISE_ENGINE_CHECKS_PROVENANCE_H_

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "reprise/engine/operators/interception.h"
#include "reprise/engine/operators/storage_id.h"

namespace reprise::engine_internal {

// 0 for what is not known.
using Provenance = std::uint64_t;

// Of a tensor that forward saves.
struct SlotProvenance {
  Provenance hash = 0;
  Provenance of_memory = 0;  // also 0 if that comes from outside
  bool is_unset = false;     // memory that nothing has set
  bool is_captured = false;  // neither an input nor made by the region
};

// Of what a forward or a recomputation has made. Lives on its thread.
class ProvenanceMap {
 public:
  ProvenanceMap();
  ~ProvenanceMap();
  ProvenanceMap(const ProvenanceMap&) = delete;
  ProvenanceMap& operator=(const ProvenanceMap&) = delete;

  static constexpr std::uint32_t kNone = 0xffffffff;

  struct Entry {
    Provenance hash = 0;
    std::int64_t shift = 0;        // of offsets in the storage, against those of forward
    std::int64_t version = 0;      // when it was last read or written
    std::uint32_t origin = kNone;  // see ReplayWatch
    bool is_unset = false;         // memory that nothing has been written to since it was made
    // Its address cannot be given out anew.
    c10::weak_intrusive_ptr<c10::StorageImpl> storage = no_storage();
  };

  // False for tensors that memory does not tell from others.
  static bool is_followed(const at::Tensor& tensor);

  // One call of an operator.
  struct Call {
    Provenance hash = 0;
    StorageIdList arguments;  // the memory of its tensors
    // Those that it reads and nobody here has made. Valid until it runs.
    absl::InlinedVector<const at::Tensor*, 4> outside;
    std::uint32_t origin = kNone;  // the first of those of its arguments
    bool has_unknown = false;      // an argument that nobody here has made
  };
  // Takes down the versions of its arguments.
  Call call_of(const OperatorCall& call);

  // The operator is about to run: what it writes to.
  void note_writes(const OperatorCall& call, const Call& described, std::uint32_t origin);
  // The operator has run: what it has made.
  void note_results(const OperatorCall& call, const Call& described, std::uint32_t origin);
  // An operator that makes views has run. Those of sparse and nested tensors have memory that
  // nobody has been seen to make.
  static bool views_opaque(const OperatorCall& call);  // to be called before it runs
  void note_views(const OperatorCall& call);
  // A cast of a parameter has run.
  void note_cast(const OperatorCall& call);
  // An operator under a PolicyBypassGuard has run: its results, and what it has written, are not
  // followed.
  void note_hidden(const OperatorCall& call);
  // See OperatorInterceptor. Nothing changes if its memory is known. It is as that which was saved,
  // if that is known.
  void note_recomputed(const at::Tensor& tensor, StorageId saved, Provenance provenance);

  // Storages, or so, that it will hold.
  void reserve(std::size_t count);
  // The tensor is input number `input`, with offsets larger by `shift` than in forward.
  void add_input(const at::Tensor& tensor, std::uint32_t input, std::int64_t shift);
  void add(const at::Tensor& tensor, Entry entry);

  // Null if nothing is known.
  const Entry* find(StorageId memory) const { return entry_of(memory); }
  // Of a tensor that is saved. entry: of its memory, as find() returns it.
  Provenance of(const at::Tensor& tensor, const Entry* entry) const;
  // Of the memory that is still in use. Nothing is known afterwards.
  absl::flat_hash_map<StorageId, Entry> take_alive();

 private:
  Provenance of_argument(const c10::IValue& value, bool is_read, Call& call);
  Provenance of_argument(const at::Tensor& tensor, bool is_read, Call& call);
  Provenance of_tensor(const at::Tensor& tensor, const Entry* entry) const;
  Entry* entry_of(StorageId memory) const;
  Entry& entry_for(const at::Tensor& tensor);

  // A store may bring several inputs back in one storage: then they are told apart by their bytes.
  struct Input {
    StorageId memory;
    std::int64_t begin;
    std::int64_t end;
    Provenance hash;
    std::int64_t shift;
  };
  Provenance of_shared(const at::Tensor& tensor) const;

  struct Buffers {
    absl::flat_hash_map<StorageId, std::uint32_t> places;  // in `entries`
    std::vector<Entry> entries;
    std::vector<Input> inputs;
    struct {
      StorageId memory = nullptr;
      std::uint32_t place = 0;
    } last;  // looked up: an operator's result is its reader's argument, and saved
  };
  // The buffers of the last map on this thread that has gone: to grow them anew for each region
  // takes longer than to fill them.
  struct Spare {
    constexpr Spare() = default;
    ~Spare() { delete std::exchange(buffers, nullptr); }
    Buffers* buffers = nullptr;
  };
  static constinit thread_local Spare spare_;
  void release();

  std::unique_ptr<Buffers> buffers_;  // null when forward has ended
  std::uint64_t random_calls_ = 0;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_CHECKS_PROVENANCE_H_
