// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Several ranks in one thread, over the test device: what is asked of a store of all ranks is asked
// of each rank's.
#ifndef REPRISE_TESTS_DEVICE_IN_PROCESS_RANKS_H_
#define REPRISE_TESTS_DEVICE_IN_PROCESS_RANKS_H_

#include <functional>
#include <memory>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "reprise/hooks/activation_store.h"
#include "reprise/partition/partitioned_store.h"

namespace reprise::testing {

// The group as each rank has it. A collective runs, as NCCL's do, on a stream of its own after what
// the current stream of each rank has queued, and holds its tensors until somebody waits for it. It
// begins when the last rank has started it; to wait before that is an error.
std::vector<c10::intrusive_ptr<c10d::ProcessGroup>> in_process_ranks(int size);

using MakeRow = std::function<std::shared_ptr<ActivationStore>(std::shared_ptr<PartitionedStore>)>;

// Gives each tensor to all ranks, and gives back the last rank's.
class AllRanksStore final : public ActivationStore {
 public:
  // `row` makes a rank's stores of its PartitionedStore.
  AllRanksStore(int size, const MakeRow& row);

  std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) override;
  std::vector<std::unique_ptr<StoredTensor>> put_all(const std::vector<at::Tensor>& tensors,
                                                     const std::string& owner) override;

  // Of the last rank.
  const PartitionedStore& partitioned() const { return *partitioned_.back(); }

 private:
  std::vector<std::shared_ptr<PartitionedStore>> partitioned_;
  std::vector<std::shared_ptr<ActivationStore>> ranks_;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_DEVICE_IN_PROCESS_RANKS_H_
