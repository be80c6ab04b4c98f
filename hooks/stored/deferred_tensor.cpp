// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/stored/deferred_tensor.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "reprise/hooks/seam/unseen_scope.h"
#include "reprise/hooks/storage/alias.h"
#include "reprise/hooks/storage/current_stream.h"

namespace reprise::hooks_internal {
namespace {

using Tensors = std::vector<std::shared_ptr<DeferredTensor>>;

// The tensors of one thread that wait, by their memory. See Note [Deferred puts].
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

  // Returns one that `tensor` is equal to; null if there is none.
  std::shared_ptr<DeferredTensor> find(const at::Tensor& tensor) const {
    const auto group = groups_.find(tensor.storage().unsafeGetStorageImpl());
    if (group != groups_.end()) {
      for (const auto& weak : group->second.tensors) {
        if (auto known = weak.lock(); known != nullptr && known->is_waiting_as(tensor)) {
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
};

}  // namespace

DeferredTensor::DeferredTensor(std::shared_ptr<ActivationStore> store, const at::Tensor& tensor)
    : store_(std::move(store)),
      storage_(tensor.storage().unsafeGetStorageImpl()),
      stream_(current_stream_of(tensor.device())),
      held_(std::make_shared<KeptTensor>(tensor)) {}

void DeferredTensor::put() {
  std::shared_ptr<KeptTensor> held;  // released after the lock
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kWaiting ||
        (stream_ && *stream_ != current_stream_of(stream_->device()))) {
      return;
    }
    state_ = State::kBeingPut;
    held = held_;
  }
  std::unique_ptr<StoredTensor> stored;
  if (held->is_unchanged()) {
    stored = store_->put(held->alias());
  }
  const std::lock_guard lock(mutex_);
  if (state_ == State::kBeingPut && stored != nullptr) {
    state_ = State::kStored;
    stored_ = std::move(stored);
    held_.reset();
  }
}

bool DeferredTensor::is_waiting_as(const at::Tensor& tensor) const {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kWaiting) {
    return false;
  }
  const at::Tensor& held = held_->alias();
  return held_->is_unchanged() && held.storage_offset() == tensor.storage_offset() &&
         held.sizes() == tensor.sizes() && held.strides() == tensor.strides() &&
         held.dtype() == tensor.dtype() && held.key_set() == tensor.key_set();
}

StoredTensor* DeferredTensor::stored_or_request() {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kStored) {
    return stored_.get();
  }
  state_ = State::kRequested;
  return nullptr;
}

void DeferredTensor::prefetch() {
  if (StoredTensor* const stored = stored_or_request()) {
    stored->prefetch();
  }
}

at::Tensor DeferredTensor::get() {
  StoredTensor* const stored = stored_or_request();
  return stored != nullptr ? stored->get() : held_->get();
}

at::Tensor DeferredTensor::get_own() {
  StoredTensor* const stored = stored_or_request();
  return stored != nullptr ? stored->get_own() : held_->get_own();
}

std::int64_t DeferredTensor::device_bytes() const {
  std::shared_ptr<KeptTensor> held;
  {
    const std::lock_guard lock(mutex_);
    held = held_;
  }
  return held ? held->device_bytes() : stored_->device_bytes();
}

std::shared_ptr<StoredTensor> put_or_defer(const std::shared_ptr<ActivationStore>& store,
                                           const at::Tensor& tensor) {
  if (!tensor.has_storage() || !store->copies_on_device(tensor)) {
    return share_unseen(store->put(tensor));
  }
  WaitingTensors& waiting = WaitingTensors::of_this_thread();
  for (const auto& due : waiting.take_due()) {
    due->put();
  }
  if (auto known = waiting.find(tensor); known != nullptr && known->store() == store) {
    return known;
  }
  std::shared_ptr<DeferredTensor> deferred(new DeferredTensor(store, tensor),
                                           [](DeferredTensor* destroyed) {
                                             const UnseenScope unseen;
                                             delete destroyed;
                                           });
  waiting.add(deferred);
  return deferred;
}

void put_waiting() noexcept {
  try {
    for (const auto& tensor : WaitingTensors::of_this_thread().take_all()) {
      tensor->put();
    }
  } catch (...) {  // a store that fails says so at its next put()
  }
}

}  // namespace reprise::hooks_internal
