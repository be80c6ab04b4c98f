// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A process group whose ranks are threads of one process, and whose gathers take a set time after
// the last rank has started its own. They take none of the processor's: a link that does its work
// beside the computation.
#ifndef REPRISE_BENCH_SLOW_LINK_H_
#define REPRISE_BENCH_SLOW_LINK_H_

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

namespace reprise::bench {

// Shared by the ranks. Thread-safe.
class SlowLink {
 public:
  using Clock = std::chrono::steady_clock;

  explicit SlowLink(int ranks) : ranks_(ranks) {}

  int ranks() const { return ranks_; }
  void set_delay(Clock::duration delay);

  // Hands in a rank's part of its `number`th gather.
  void put(std::size_t number, int rank, const at::Tensor& part);
  // Waits until all parts have come and the time is over, and writes them to `whole`.
  void take(std::size_t number, at::Tensor whole);

 private:
  struct Gather {
    std::vector<at::Tensor> parts;
    int put = 0;
    int taken = 0;
    std::optional<Clock::time_point> arrival;
  };

  const int ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Clock::duration delay_ = {};
  std::map<std::size_t, Gather> gathers_;
};

// The group of one rank, for tensors of the CPU.
c10::intrusive_ptr<c10d::ProcessGroup> join(std::shared_ptr<SlowLink> link, int rank);

}  // namespace reprise::bench

#endif  // REPRISE_BENCH_SLOW_LINK_H_
