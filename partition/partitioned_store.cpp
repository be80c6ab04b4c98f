// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/partition/partitioned_store.h"

#include <algorithm>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>

#include "reprise/hooks/seam/unseen_scope.h"
#include "reprise/hooks/storage/has_bytes.h"
#include "reprise/hooks/storage/memory_layout.h"
#include "reprise/hooks/stored/next_store.h"
#include "reprise/hooks/stored/sparse_parts.h"
#include "reprise/partition/gathering/gatherer.h"
#include "reprise/partition/gathering/partitioned_slab.h"

namespace reprise {

using partition_internal::Gatherer;
using partition_internal::PartitionedSlab;
using partition_internal::SlabEntry;
using partition_internal::SlabLayout;

namespace {

// Of one device, in the order in which they were put: positions.
struct SlabMembers {
  c10::Device device;
  std::vector<std::size_t> positions;
};

void add_to(std::vector<SlabMembers>& slabs, c10::Device device, std::size_t position) {
  const auto found = std::find_if(slabs.begin(), slabs.end(),
                                  [&](const SlabMembers& slab) { return slab.device == device; });
  SlabMembers& slab = found == slabs.end() ? slabs.emplace_back(SlabMembers{device, {}}) : *found;
  slab.positions.push_back(position);
}

}  // namespace

PartitionedStore::PartitionedStore(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                   PartitionedOptions options)
    : PartitionedStore(std::make_shared<Gatherer>(group, options), options.min_bytes, nullptr) {}

PartitionedStore::PartitionedStore(std::shared_ptr<Gatherer> gatherer, std::int64_t min_bytes,
                                   std::shared_ptr<ActivationStore> next)
    : gatherer_(std::move(gatherer)), min_bytes_(min_bytes), next_(std::move(next)) {}

PartitionedStore::~PartitionedStore() = default;

std::unique_ptr<StoredTensor> PartitionedStore::put(const at::Tensor& tensor) {
  return std::move(put_all({tensor}, "").front());
}

std::vector<std::unique_ptr<StoredTensor>> PartitionedStore::put_all(
    const std::vector<at::Tensor>& tensors, const std::string& owner) {
  const hooks_internal::UnseenScope unseen;
  const std::shared_ptr<ActivationStore> next = hooks_internal::or_device(next_);
  std::vector<std::unique_ptr<StoredTensor>> stored(tensors.size());
  std::vector<SlabMembers> slabs;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i];
    if (hooks_internal::is_sparse(tensor)) {
      stored[i] = hooks_internal::put_parts(*this, tensor);
    } else if (gatherer_->size() > 1 && hooks_internal::has_bytes(tensor) && tensor.numel() > 0 &&
               hooks_internal::byte_count(tensor) >= min_bytes_) {
      add_to(slabs, tensor.device(), i);
    } else {
      stored[i] = next->put(tensor);
    }
  }
  for (const SlabMembers& members : slabs) {
    gatherer_->check_device(members.device);
    std::vector<at::Tensor> together;
    for (const std::size_t position : members.positions) {
      together.push_back(tensors[position]);
    }
    const auto slab =
        PartitionedSlab::put(gatherer_, together, *next, /*is_forwarded=*/next_ != nullptr, owner);
    for (std::size_t part = 0; part < together.size(); ++part) {
      stored[members.positions[part]] = std::make_unique<SlabEntry>(slab, part);
    }
  }
  return stored;
}

std::shared_ptr<ActivationStore> PartitionedStore::followed_by(
    std::shared_ptr<ActivationStore> next) {
  return std::shared_ptr<PartitionedStore>(new PartitionedStore(
      gatherer_, min_bytes_, hooks_internal::appended(next_, std::move(next))));
}

PartitionedCounters PartitionedStore::counters() const { return gatherer_->counters(); }

namespace stores {

std::shared_ptr<PartitionedStore> partitioned(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                              PartitionedOptions options) {
  return std::make_shared<PartitionedStore>(group, options);
}

}  // namespace stores

}  // namespace reprise
