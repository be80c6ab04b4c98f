// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/stored_values.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <thread>
#include <utility>

#include "reprise/hooks/seam/unseen_scope.h"
#include "reprise/hooks/stored/exact_tensor.h"

namespace reprise::engine_internal {

using hooks_internal::UnseenScope;

// A value in its store. When it is fetched is for the plan to say.
class StoredValues::Stored final : public hooks_internal::ExactTensor {
 public:
  Stored(std::shared_ptr<StoredValues> values, std::shared_ptr<StoredTensor> tensor,
         std::int64_t bytes)
      : values_(std::move(values)), tensor_(std::move(tensor)), bytes_(bytes) {}

  at::Tensor get() override {
    make_room();
    return tensor_->get();
  }
  at::Tensor get_own() override {
    make_room();
    return tensor_->get_own();
  }
  [[nodiscard]] std::int64_t device_bytes() const override { return tensor_->device_bytes(); }
  [[nodiscard]] bool is_exact() const override { return hooks_internal::is_exact(*tensor_); }

 private:
  void make_room() {
    if (tensor_->device_bytes() < bytes_) {
      values_->make_room(bytes_);
    }
  }

  const std::shared_ptr<StoredValues> values_;
  const std::shared_ptr<StoredTensor> tensor_;
  const std::int64_t bytes_;
};

// The store of one value.
class StoredValues::Place final : public ActivationStore {
 public:
  Place(std::shared_ptr<StoredValues> values, std::uint32_t number,
        std::shared_ptr<ActivationStore> store, const PlannedStore& planned)
      : values_(std::move(values)), number_(number), store_(std::move(store)), planned_(planned) {}

  std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) override {
    const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
    if (!planned_.is_overlapped) {
      values_->make_room(bytes);
    }
    std::shared_ptr<StoredTensor> stored = store_->put(tensor);
    values_->add(number_, {.tensor = stored, .bytes = bytes}, planned_);
    if (!planned_.is_overlapped) {
      values_->wait_for_departures(std::numeric_limits<std::int64_t>::max());
    }
    return std::make_unique<Stored>(values_, std::move(stored), bytes);
  }
  [[nodiscard]] bool copies_on_device(const at::Tensor& tensor) const override {
    return store_->copies_on_device(tensor);
  }

 private:
  const std::shared_ptr<StoredValues> values_;
  const std::uint32_t number_;
  const std::shared_ptr<ActivationStore> store_;
  const PlannedStore planned_;
};

void StoredValues::note_result(std::uint32_t number, TapeValueId value) {
  const MutexLock lock(mutex_);
  numbers_[value] = number;
}

std::shared_ptr<ActivationStore> StoredValues::store_for(std::uint32_t number,
                                                         std::shared_ptr<ActivationStore> store,
                                                         const PlannedStore& planned) {
  return std::make_shared<Place>(shared_from_this(), number, std::move(store), planned);
}

void StoredValues::add(std::uint32_t number, Departure departure, const PlannedStore& planned) {
  constexpr double kMargin = 2;
  constexpr std::chrono::milliseconds kLeast(100);  // threads of a busy machine
  stored_bytes_ += departure.bytes;
  remove_departed();
  const auto bytes = static_cast<double>(departure.bytes + departing_bytes());
  const std::chrono::duration<double> expected(kMargin * planned.put_seconds_per_byte * bytes);
  departure.due = Clock::now() + kLeast + std::chrono::duration_cast<Clock::duration>(expected);
  const MutexLock lock(mutex_);
  stored_[number] = departure;
  if (planned.keeps_last) {
    std::swap(last_[planned.number], departure);
  }
  if (departure.bytes > 0) {
    departures_.push_back(departure);
  }
}

std::int64_t StoredValues::departing_bytes() const {
  const MutexLock lock(mutex_);
  return std::accumulate(departures_.begin(), departures_.end(), std::int64_t{0},
                         [](std::int64_t sum, const Departure& each) { return sum + each.bytes; });
}

// Stores are asked without the lock.
std::int64_t StoredValues::remove_departed() {
  std::vector<Departure> departures;
  {
    const MutexLock lock(mutex_);
    departures.swap(departures_);
  }
  const UnseenScope unseen;
  const Clock::time_point now = Clock::now();
  std::int64_t departed_bytes = 0;
  std::erase_if(departures, [&](const Departure& departure) {
    const std::shared_ptr<StoredTensor> tensor = departure.tensor.lock();
    const std::int64_t bytes = tensor == nullptr ? 0 : tensor->device_bytes();
    const bool has_left = bytes < departure.bytes;
    departed_bytes += has_left ? departure.bytes - bytes : 0;
    return has_left || now > departure.due;
  });
  const MutexLock lock(mutex_);
  departures_.insert(departures_.begin(), departures.begin(), departures.end());
  return departed_bytes;
}

std::int64_t StoredValues::wait_for_departures(std::int64_t bytes) {
  std::int64_t departed_bytes = remove_departed();
  while (departed_bytes < bytes && departing_bytes() > 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    departed_bytes += remove_departed();
  }
  return departed_bytes;
}

void StoredValues::note_read(TapeValueId value, const StepPlan& plan) {
  std::vector<std::uint32_t> numbers;
  {
    const MutexLock lock(mutex_);
    const auto found = numbers_.find(value);
    if (found == numbers_.end()) {
      return;
    }
    const std::pair key(found->second, ++reads_[found->second]);
    auto due = std::lower_bound(
        plan.fetches.begin(), plan.fetches.end(), key,
        [](const PlannedFetch& fetch, const auto& now) { return fetch.key() < now; });
    for (; due != plan.fetches.end() && due->key() == key; ++due) {
      numbers.push_back(due->number);
    }
  }
  std::for_each(numbers.begin(), numbers.end(), [this](std::uint32_t number) { fetch(number); });
}

void StoredValues::fetch(std::uint32_t number) {
  Departure stored;
  {
    const MutexLock lock(mutex_);
    if (const auto found = stored_.find(number); found != stored_.end()) {
      stored = found->second;
    }
  }
  const std::shared_ptr<StoredTensor> tensor = stored.tensor.lock();
  if (tensor != nullptr && shortage(stored.bytes) <= 0) {
    const UnseenScope unseen;
    tensor->prefetch();
  }
}

std::int64_t StoredValues::shortage(std::int64_t bytes) const {
  return guard_.source().bytes_in_use() + bytes - limit_bytes_;
}

void StoredValues::make_room(std::int64_t bytes) {
  std::int64_t missing = shortage(bytes);
  while (missing > 0 && guard_.make_room(missing, limit_bytes_ + missing)) {
    missing = shortage(bytes);
  }
}

}  // namespace reprise::engine_internal
