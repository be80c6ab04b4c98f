// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The entries of a store whose bytes have not left the device yet, in the order in which they
// leave, with the number of these bytes.
#ifndef REPRISE_HOOKS_BUFFERS_RESIDENCY_QUEUE_H_
#define REPRISE_HOOKS_BUFFERS_RESIDENCY_QUEUE_H_

#include <cstdint>
#include <iterator>
#include <list>
#include <memory>

namespace reprise::hooks_internal {

// `Entry` has an origin() and derives from std::enable_shared_from_this. An entry is resident, then
// in neither list while a thread prepares its departure, then in flight. Not thread-safe: guarded
// by the store's lock.
template <class Entry>
class ResidencyQueue {
 public:
  // A new entry, or, first, one whose departure has failed.
  void add(Entry& entry) { push(entry, resident_.end()); }
  void add_first(Entry& entry) { push(entry, resident_.begin()); }

  // Removes and returns the oldest resident entry. Returns null if there is none, or if all are
  // being destroyed by other threads, which wait for the lock.
  std::shared_ptr<Entry> take_oldest() {
    for (Entry* const entry : resident_) {
      if (auto oldest = entry->weak_from_this().lock()) {
        remove_resident(*entry);
        return oldest;
      }
    }
    return nullptr;
  }
  void remove_resident(Entry& entry) {
    resident_.remove(&entry);
    resident_bytes_ -= size_of(entry);
  }

  void start_flight(Entry& entry) {
    in_flight_.push_back(&entry);
    in_flight_bytes_ += size_of(entry);
  }
  void end_flight(Entry& entry) {
    in_flight_.remove(&entry);
    in_flight_bytes_ -= size_of(entry);
  }
  // Returns null if nothing is in flight.
  Entry* oldest_in_flight() const { return in_flight_.empty() ? nullptr : in_flight_.front(); }

  std::int64_t resident_count() const { return std::ssize(resident_); }
  std::int64_t resident_bytes() const { return resident_bytes_; }
  std::int64_t in_flight_bytes() const { return in_flight_bytes_; }

 private:
  using Entries = std::list<Entry*>;  // oldest first

  static std::int64_t size_of(const Entry& entry) { return entry.origin().size(); }
  void push(Entry& entry, typename Entries::const_iterator place) {
    resident_.insert(place, &entry);
    resident_bytes_ += size_of(entry);
  }

  Entries resident_;
  Entries in_flight_;
  std::int64_t resident_bytes_ = 0;
  std::int64_t in_flight_bytes_ = 0;
};

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_BUFFERS_RESIDENCY_QUEUE_H_
