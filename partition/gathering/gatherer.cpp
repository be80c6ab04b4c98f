// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/partition/gathering/gatherer.h"

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/StringUtil.h>

#include <stdexcept>
#include <utility>

#include "reprise/hooks/seam/torch_version.h"
#include "reprise/hooks/storage/current_stream.h"
#include "reprise/hooks/storage/memory_layout.h"
#include "reprise/hooks/stored/option_checks.h"
#include "reprise/partition/gathering/rank_hash.h"
#include "reprise/partition/partition_error.h"

namespace reprise::partition_internal {
namespace {

std::string message_of(const std::exception& error) {
  const auto* const of_libtorch = dynamic_cast<const c10::Error*>(&error);
  return of_libtorch != nullptr ? of_libtorch->what_without_backtrace() : error.what();
}

// A separate connection: a rank that waits there does not block others.
c10::intrusive_ptr<c10d::Store> store_for_checks(c10d::ProcessGroup& group) {
  const c10::intrusive_ptr<c10d::Store> store = group.getStore();
  if (store == nullptr) {
    throw std::invalid_argument(
        "[stores.partitioned] check_order is on, but the process group has no c10d::Store to check "
        "over; make the group with one");
  }
  return store->clone();
}

const c10::intrusive_ptr<c10d::ProcessGroup>& not_null(
    const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  if (group == nullptr) {
    throw std::invalid_argument("[stores.partitioned] the process group is a null pointer");
  }
  return group;
}

}  // namespace

Gatherer::Gatherer(const c10::intrusive_ptr<c10d::ProcessGroup>& group, PartitionedOptions options)
    : group_(not_null(group)),
      order_(GatherOrder::of(group)),
      options_(options),
      check_store_(options.check_order ? store_for_checks(*group) : nullptr) {
  hooks_internal::check_not_negative("stores.partitioned", {{"min_bytes", options.min_bytes}});
}

void Gatherer::check_device(c10::Device device) const {
  try {
    group_->getBackend(device.type());
  } catch (const std::exception& error) {
    throw PartitionError(
        c10::str("[stores.partitioned] a tensor on ", device,
                 " was put, for which the process group has no backend: ", message_of(error)));
  }
}

GatherDescription Gatherer::describe(const SlabLayout& layout, const std::vector<at::Tensor>& rows,
                                     const std::string& owner) {
  GatherDescription description;
  description.name = c10::str("put #", puts_.fetch_add(1), owner.empty() ? "" : " of region '",
                              owner, owner.empty() ? "" : "'");
  description.contents = c10::str(layout.to_string(), " (", layout.bytes(), " bytes)");
  if (check_store_) {
    description.contents += c10::str(", values ", rank_hash(rows));
  }
  return description;
}

Gather Gatherer::start(const at::Tensor& part, const GatherDescription& description) {
  Gather gather{at::empty({part.numel() * size()}, part.options()), nullptr,
                hooks_internal::current_stream_of(part.device())};
  at::Tensor input = part;
  const std::lock_guard lock(order_->mutex());
  if (check_store_) {
    order_->check_next(*check_store_, *group_, description, options_.check_timeout);
  }
  try {
    gather.work = hooks_internal::all_gather_into(*group_, gather.slab, input);
  } catch (const std::exception& error) {
    fail(error, description);
  }
  gathers_.fetch_add(1);
  gathered_bytes_.fetch_add(hooks_internal::byte_count(gather.slab));
  return gather;
}

void Gatherer::wait(const Gather& gather, const GatherDescription& description) const {
  const std::optional<c10::Stream> current =
      hooks_internal::current_stream_of(gather.slab.device());
  if (current && *current != *gather.stream) {
    // First, as the collective may release the part with the first wait.
    const c10::StreamGuard on_its_stream(*gather.stream);
    wait_here(gather, description);
    gather.slab.record_stream(*current);
  }
  wait_here(gather, description);
}

void Gatherer::wait_here(const Gather& gather, const GatherDescription& description) const {
  bool is_done = false;
  try {
    is_done = gather.work->wait();
  } catch (const std::exception& error) {
    fail(error, description);
  }
  if (!is_done) {
    fail(std::runtime_error("it was aborted"), description);
  }
}

void Gatherer::fail(const std::exception& error, const GatherDescription& description) const {
  throw PartitionError(c10::str("[stores.partitioned] gathering ", description.name, ", ",
                                description.contents, ", from the ", size(),
                                " ranks of the process group failed on rank ", rank(), ": ",
                                message_of(error),
                                ". Another rank has failed, is gone, or does other collectives; "
                                "check_order tells which"));
}

}  // namespace reprise::partition_internal
