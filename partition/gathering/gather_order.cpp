// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/partition/gathering/gather_order.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "reprise/partition/partition_error.h"

namespace reprise::partition_internal {
namespace {

constexpr char kSeparator = '\n';  // between contents and name

// The ranks' descriptions of one gather, under keys of the c10d::Store.
class Notes {
 public:
  Notes(c10d::Store& store, const c10d::ProcessGroup& group)
      : store_(store),
        prefix_("reprise/partition/" + group.getGroupName() + "/"),
        rank_(group.getRank()),
        size_(group.getSize()) {}

  // A rank that has arrived at the gather after the next has read the descriptions of this one.
  void write(std::uint64_t gather, const std::string& description) {
    store_.set(key(gather, rank_), description);
    if (gather >= 2) {
      store_.deleteKey(key(gather - 2, rank_));
    }
  }

  // Returns when all ranks have written, or at the timeout.
  void wait(std::uint64_t gather, std::chrono::milliseconds timeout, const char* what = "") {
    std::vector<std::string> keys;
    for (int rank = 0; rank < size_; ++rank) {
      keys.push_back(key(gather, rank) + what);
    }
    try {
      store_.wait(keys, timeout);
    } catch (const std::exception&) {  // the callers check which ranks are missing
    }
  }

  std::optional<std::string> read(std::uint64_t gather, int rank) {
    const std::string name = key(gather, rank);
    return store_.check({name}) ? std::optional(store_.get_to_str(name)) : std::nullopt;
  }

  // A rank throws after all present ranks have read its description: the store may end with it.
  void wait_until_seen(std::uint64_t gather, std::chrono::milliseconds timeout) {
    store_.set(key(gather, rank_) + "/seen", std::string("1"));
    wait(gather, timeout, "/seen");
  }

 private:
  std::string key(std::uint64_t gather, int rank) const {
    return prefix_ + std::to_string(gather) + "/" + std::to_string(rank);
  }

  c10d::Store& store_;
  const std::string prefix_;
  const int rank_;
  const int size_;
};

std::string contents_of(const std::string& description) {
  return description.substr(0, description.find(kSeparator));
}

std::string readable(const std::string& description) {
  return description.substr(description.find(kSeparator) + 1) + ": " + contents_of(description);
}

// Describes a rank that has not arrived at the gather.
std::string missing(Notes& notes, int rank, std::uint64_t gather) {
  const auto last = gather > 0 ? notes.read(gather - 1, rank) : std::nullopt;
  return last ? "has not come; its last gather was " + readable(*last) : "has not come";
}

}  // namespace

std::shared_ptr<GatherOrder> GatherOrder::of(const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  struct OfGroup {
    c10::weak_intrusive_ptr<c10d::ProcessGroup> group;
    std::shared_ptr<GatherOrder> order;
  };
  static std::mutex mutex;
  static std::vector<OfGroup> all;
  std::vector<OfGroup> gone;  // destroyed after the lock
  const std::lock_guard lock(mutex);
  const auto expired = std::partition(all.begin(), all.end(),
                                      [](const OfGroup& one) { return !one.group.expired(); });
  std::move(expired, all.end(), std::back_inserter(gone));
  all.erase(expired, all.end());
  for (const OfGroup& one : all) {
    if (one.group._unsafe_get_target() == group.get()) {
      return one.order;
    }
  }
  all.push_back(
      {c10::weak_intrusive_ptr<c10d::ProcessGroup>(group), std::make_shared<GatherOrder>()});
  return all.back().order;
}

void GatherOrder::check_next(c10d::Store& store, const c10d::ProcessGroup& group,
                             const GatherDescription& description,
                             std::chrono::milliseconds timeout) {
  const std::uint64_t gather = checked_++;
  Notes notes(store, group);
  std::string lines;
  bool is_missing = false;
  bool is_other = false;
  try {
    notes.write(gather, description.contents + kSeparator + description.name);
    notes.wait(gather, timeout);
    for (int rank = 0; rank < group.getSize(); ++rank) {
      const std::optional<std::string> of_rank = notes.read(gather, rank);
      lines += c10::str("\n  rank ", rank, ": ",
                        of_rank ? readable(*of_rank) : missing(notes, rank, gather));
      is_missing = is_missing || !of_rank;
      is_other = is_other || (of_rank && contents_of(*of_rank) != description.contents);
    }
    if (!is_missing && is_other) {
      notes.wait_until_seen(gather, std::min(timeout, std::chrono::milliseconds(10000)));
    }
  } catch (const std::exception& error) {
    throw PartitionError(
        c10::str("[stores.partitioned] rank ", group.getRank(),
                 " cannot reach the store at which the ranks met, to check gather #", gather,
                 ": the rank that has it is gone. ", error.what()));
  }
  if (is_missing) {
    throw PartitionError(c10::str("[stores.partitioned] not all ranks have come to gather #",
                                  gather, " within ", timeout.count(), " ms:", lines));
  }
  if (is_other) {
    throw PartitionError(
        c10::str("[stores.partitioned] the ranks are about to gather different tensors as gather #",
                 gather, ":", lines,
                 "\nAll ranks must put equal tensors, and run the same regions in the same order"));
  }
}

}  // namespace reprise::partition_internal
