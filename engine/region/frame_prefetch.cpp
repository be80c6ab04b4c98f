// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What a frame has in stores, and when it starts to come back.
#include <algorithm>
#include <utility>
#include <vector>

#include "reprise/engine/region/frame.h"
#include "reprise/hooks/seam/unseen_scope.h"

namespace reprise::engine_internal {
namespace {

// A hash map has another order in each process. Stores that communicate need the same in all.
template <class Map>
std::vector<std::pair<typename Map::key_type, const typename Map::mapped_type*>> in_order(
    const Map& map) {
  std::vector<std::pair<typename Map::key_type, const typename Map::mapped_type*>> entries;
  entries.reserve(map.size());
  for (const auto& [key, value] : map) {
    entries.emplace_back(key, &value);
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

}  // namespace

void Frame::follow_previous() {
  thread_local std::weak_ptr<Frame> last_of_thread;
  if (has_stored()) {
    has_stored_ = true;
    previous_ = std::exchange(last_of_thread, weak_from_this());
  }
}

bool Frame::has_stored() const {
  const auto is_stored = [](const KeptResult& kept) { return kept.stored != nullptr; };
  const auto kept = record_.trace ? record_.trace->kept() : nullptr;
  return record_.input_store ||
         (kept && std::any_of(kept->begin(), kept->end(),
                              [&](const auto& entry) {
                                return std::any_of(entry.second.begin(), entry.second.end(),
                                                   is_stored);
                              })) ||
         (record_.tape &&
          std::any_of(record_.tape->given.begin(), record_.tape->given.end(),
                      [&](const auto& entry) { return is_stored(entry.second.kept); }));
}

void Frame::prefetch_ahead() {
  std::shared_ptr<Frame> next = shared_from_this();
  for (int depth = 0; depth <= record_.prefetch_depth && next; ++depth) {
    next->prefetch();
    next = next->previous_.lock();
  }
}

void Frame::prefetch() {
  const hooks_internal::UnseenScope unseen;
  for (const auto& stored : stored_in_order()) {
    stored->prefetch();
  }
}

std::vector<std::shared_ptr<StoredTensor>> Frame::stored_in_order() {
  std::vector<std::shared_ptr<StoredTensor>> all;
  const auto add = [&all](const std::shared_ptr<StoredTensor>& stored) {
    if (stored) {
      all.push_back(stored);
    }
  };
  for (const RegionInput& input : record_.inputs) {
    add(input.stored());
  }
  if (const auto kept = record_.trace ? record_.trace->kept() : nullptr) {
    for (const auto& [index, results] : in_order(*kept)) {
      std::for_each(results->begin(), results->end(), [&](const KeptResult& k) { add(k.stored); });
    }
  }
  if (record_.tape) {
    const MutexLock lock(mutex_);
    for (const auto& [value, given] : in_order(record_.tape->given)) {
      if (given->input) {
        add(given->input->stored());
      }
      add(given->kept.stored);
    }
  }
  return all;
}

}  // namespace reprise::engine_internal
