// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/stored/deferred_tensor.h"

#include <ATen/SequenceNumber.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "reprise/hooks/seam/unseen_scope.h"
#include "reprise/hooks/storage/alias.h"
#include "reprise/hooks/storage/current_stream.h"
#include "reprise/hooks/storage/memory_layout.h"
#include "reprise/hooks/stored/kept_tensor.h"

namespace reprise::hooks_internal {
namespace {

using Tensors = std::vector<std::shared_ptr<DeferredTensor>>;

// The tensors of one thread that wait: for their owners, by their memory (Note [Deferred puts]), or
// for the operator that saves them (Note [Final contents]).
class WaitingTensors {
 public:
  static WaitingTensors& of_this_thread() {
    thread_local WaitingTensors t_waiting;
    return t_waiting;
  }

  void add(const std::shared_ptr<DeferredTensor>& tensor) {
    Group& group = groups_[tensor->storage()];
    group.tensors.push_back(tensor);
    if (group.tensors.size() == 1) {
      schedule(tensor->storage(), group);
    }
  }

  // Returns one that `tensor` is equal to; null if there is none. Two objects of one operator stay
  // two.
  std::shared_ptr<DeferredTensor> find(const at::Tensor& tensor,
                                       const c10::TensorImpl* saved) const {
    const auto group = groups_.find(tensor.storage().unsafeGetStorageImpl());
    if (group != groups_.end()) {
      for (const auto& weak : group->second.tensors) {
        if (auto known = weak.lock(); known != nullptr && known->is_waiting_as(tensor) &&
                                      (known->is_also(saved) || !known->is_saved_now())) {
          return known;
        }
      }
    }
    return nullptr;
  }

  // Another tensor is about to be stored. Returns the tensors that nobody else owns, among those
  // whose turn it is.
  Tensors take_due() { return take_until(++now_); }
  Tensors take_all() { return take_until(now_ + kLongest); }

  void add_unfinished(const std::shared_ptr<DeferredTensor>& tensor) {
    unfinished_.push_back(tensor);
    node_ = at::sequence_number::peek();
  }
  // Returns one that is of the very object; null if there is none.
  std::shared_ptr<DeferredTensor> find_unfinished(const c10::TensorImpl* saved) const {
    for (const auto& weak : unfinished_) {
      if (auto known = weak.lock(); known != nullptr && known->is_also(saved)) {
        return known;
      }
    }
    return nullptr;
  }
  // A tensor is about to be stored. Returns those of other operators, which have ended.
  Tensors take_finished() {
    const bool is_same_operator = unfinished_.empty() || node_ == at::sequence_number::peek();
    return is_same_operator ? Tensors() : take_unfinished();
  }
  Tensors take_unfinished() {
    Tensors taken;
    for (const auto& weak : std::exchange(unfinished_, {})) {
      if (auto tensor = weak.lock()) {
        taken.push_back(std::move(tensor));
      }
    }
    return taken;
  }

 private:
  static constexpr std::int64_t kLongest = 64;

  Tensors take_until(std::int64_t last) {
    const std::multimap<std::int64_t, c10::StorageImpl*> due(due_.begin(), due_.upper_bound(last));
    due_.erase(due_.begin(), due_.upper_bound(last));
    Tensors taken;
    for (const auto& [turn, storage] : due) {
      look_at(storage, taken);
    }
    return taken;
  }

  struct Group {
    std::vector<std::weak_ptr<DeferredTensor>> tensors;
    std::int64_t interval = 1;
  };

  void schedule(c10::StorageImpl* storage, Group& group) {
    due_.emplace(now_ + group.interval, storage);
    group.interval = std::min(2 * group.interval, kLongest);
  }

  void look_at(c10::StorageImpl* storage, Tensors& taken) {
    const auto found = groups_.find(storage);
    Tensors alive;
    for (const auto& weak : found->second.tensors) {
      if (auto tensor = weak.lock()) {
        alive.push_back(std::move(tensor));
      }
    }
    if (!alive.empty() && c10::raw::intrusive_ptr::use_count(storage) > alive.size()) {
      schedule(storage, found->second);
      return;
    }
    groups_.erase(found);
    std::move(alive.begin(), alive.end(), std::back_inserter(taken));
  }

  std::int64_t now_ = 0;  // tensors that this thread has stored
  std::multimap<std::int64_t, c10::StorageImpl*> due_;
  std::unordered_map<c10::StorageImpl*, Group> groups_;
  std::vector<std::weak_ptr<DeferredTensor>> unfinished_;
  std::uint64_t node_ = 0;  // of the operator that saved them
};

void put_each(const Tensors& tensors) {
  for (const auto& tensor : tensors) {
    tensor->put();
  }
}

}  // namespace

DeferredTensor::DeferredTensor(std::shared_ptr<ActivationStore> store, at::Tensor alias,
                               Until until, const c10::TensorImpl* saved)
    : store_(std::move(store)),
      storage_(alias.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()),
      until_(until),
      stream_(current_stream_of(alias.device())),
      version_(version_of(alias)),
      saved_(saved),
      node_(at::sequence_number::peek()),
      held_(std::move(alias)),
      given_(c10::intrusive_ptr<c10::TensorImpl>()) {}

DeferredTensor::~DeferredTensor() {
  const UnseenScope unseen;
  held_.reset();
  stored_.reset();
}

void DeferredTensor::put() {
  at::Tensor held;  // freed after the lock
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kWaiting || (until_ == Until::kUnowned && stream_ &&
                                      *stream_ != current_stream_of(stream_->device()))) {
      return;
    }
    state_ = State::kBeingPut;
    held = held_;
  }
  std::unique_ptr<StoredTensor> stored;
  try {
    if (version_of(held) == version_) {
      stored = put_on_its_stream(held);
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    state_ = state_ == State::kBeingPut ? State::kWaiting : state_;
    throw;
  }
  const std::lock_guard lock(mutex_);
  if (state_ == State::kBeingPut && stored != nullptr) {
    state_ = State::kStored;
    stored_ = std::move(stored);
    held_.reset();
  }
}

std::unique_ptr<StoredTensor> DeferredTensor::put_on_its_stream(const at::Tensor& held) const {
  const c10::OptionalStreamGuard on_stream(stream_);
  std::unique_ptr<StoredTensor> stored = store_->put(held);
  TORCH_CHECK(stored != nullptr, "[stores] a store's put() returned a null pointer");
  return stored;
}

bool DeferredTensor::is_exact() const {
  const std::lock_guard lock(mutex_);
  return stored_ == nullptr || hooks_internal::is_exact(*stored_);
}

bool DeferredTensor::is_waiting_as(const at::Tensor& tensor) const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kWaiting && version_of(held_) == version_ &&
         held_.storage_offset() == tensor.storage_offset() && held_.sizes() == tensor.sizes() &&
         held_.strides() == tensor.strides() && held_.dtype() == tensor.dtype() &&
         held_.key_set() == tensor.key_set();
}

bool DeferredTensor::is_saved_now() const { return node_ == at::sequence_number::peek(); }

bool DeferredTensor::is_also(const c10::TensorImpl* saved) {
  const bool is_one = saved == saved_ && is_saved_now();
  if (is_one && saved != nullptr) {
    const std::lock_guard lock(mutex_);
    is_one_object_ = true;
  }
  return is_one;
}

StoredTensor* DeferredTensor::stored_or_request() {
  if (until_ == Until::kFinal) {
    put();
  }
  const std::lock_guard lock(mutex_);
  if (state_ == State::kStored) {
    return stored_.get();
  }
  state_ = State::kRequested;
  return nullptr;
}

void DeferredTensor::prefetch() {
  StoredTensor* stored = nullptr;
  {
    const std::lock_guard lock(mutex_);
    stored = stored_.get();
    if (state_ != State::kStored && until_ == Until::kUnowned) {
      state_ = State::kRequested;
    }
  }
  if (stored != nullptr) {
    stored->prefetch();
  }
}

// It stays once it was requested.
at::Tensor DeferredTensor::get_held() const {
  check_version(held_, version_);
  return detached_alias(held_);
}

// With the lock or without, no tensor is released here.
at::Tensor DeferredTensor::as_one_object(at::Tensor tensor) {
  const std::lock_guard lock(mutex_);
  if (!is_one_object_) {
    return tensor;
  }
  if (auto given = given_.lock()) {
    return at::Tensor(std::move(given));
  }
  given_ = c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr());
  return tensor;
}

at::Tensor DeferredTensor::get() {
  StoredTensor* const stored = stored_or_request();
  return as_one_object(stored != nullptr ? stored->get() : get_held());
}

at::Tensor DeferredTensor::get_own() {
  StoredTensor* const stored = stored_or_request();
  return stored != nullptr ? stored->get_own() : own_copy(get_held());
}

std::int64_t DeferredTensor::device_bytes() const {
  at::Tensor held;
  {
    const std::lock_guard lock(mutex_);
    held = held_;
  }
  return held.defined() ? memory_bytes(held) : stored_->device_bytes();
}

namespace {

std::shared_ptr<DeferredTensor> defer_for_owners(WaitingTensors& waiting,
                                                 const std::shared_ptr<ActivationStore>& store,
                                                 const at::Tensor& alias,
                                                 const c10::TensorImpl* saved) {
  put_each(waiting.take_due());
  if (auto known = waiting.find(alias, saved); known != nullptr && known->store() == store) {
    return known;
  }
  auto deferred =
      std::make_shared<DeferredTensor>(store, alias, DeferredTensor::Until::kUnowned, saved);
  waiting.add(deferred);
  return deferred;
}

std::shared_ptr<DeferredTensor> defer_until_final(WaitingTensors& waiting,
                                                  const std::shared_ptr<ActivationStore>& store,
                                                  const at::Tensor& alias,
                                                  const c10::TensorImpl* saved) {
  if (auto known = waiting.find_unfinished(saved)) {
    return known;
  }
  auto deferred =
      std::make_shared<DeferredTensor>(store, alias, DeferredTensor::Until::kFinal, saved);
  waiting.add_unfinished(deferred);
  return deferred;
}

}  // namespace

std::shared_ptr<StoredTensor> put_or_defer(const std::shared_ptr<ActivationStore>& store,
                                           const at::Tensor& alias, const c10::TensorImpl* saved) {
  WaitingTensors& waiting = WaitingTensors::of_this_thread();
  put_each(waiting.take_finished());
  if (alias.has_storage() && store->copies_on_device(alias)) {
    return defer_for_owners(waiting, store, alias, saved);
  }
  return saved == nullptr ? share_unseen(store->put(alias))
                          : defer_until_final(waiting, store, alias, saved);
}

void put_waiting() noexcept {
  WaitingTensors& waiting = WaitingTensors::of_this_thread();
  for (const Tensors& tensors : {waiting.take_unfinished(), waiting.take_all()}) {
    try {
      put_each(tensors);
    } catch (...) {  // a store that fails says so at its next put()
    }
  }
}

}  // namespace reprise::hooks_internal
