// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "bench/slow_link.h"

#include <ATen/ops/cat.h>

#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>

namespace reprise::bench {
namespace {

class GatherWork final : public c10d::Work {
 public:
  GatherWork(std::shared_ptr<SlowLink> link, std::size_t number, at::Tensor whole)
      : link_(std::move(link)), number_(number), whole_(std::move(whole)) {}

  bool wait(std::chrono::milliseconds /*timeout*/) override {
    link_->take(number_, whole_);
    return true;
  }

 private:
  const std::shared_ptr<SlowLink> link_;
  const std::size_t number_;
  const at::Tensor whole_;
};

// Not `override`: LibTorch 2.14 gave the collective a new name.
class SlowLinkBackend final : public c10d::Backend {
 public:
  SlowLinkBackend(std::shared_ptr<SlowLink> link, int rank)
      : Backend(rank, link->ranks()), link_(std::move(link)) {}

  const std::string getBackendName() const override { return "slow_link"; }

  // NOLINTNEXTLINE(modernize-use-override,bugprone-reserved-identifier)
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& whole, at::Tensor& part,
                                                 const c10d::AllgatherOptions& /*options*/) {
    return gather(whole, part);
  }
  // NOLINTNEXTLINE(modernize-use-override)
  c10::intrusive_ptr<c10d::Work> all_gather_single(at::Tensor& whole, at::Tensor& part,
                                                   const c10d::AllgatherOptions& /*options*/) {
    return gather(whole, part);
  }

 private:
  c10::intrusive_ptr<c10d::Work> gather(const at::Tensor& whole, const at::Tensor& part) {
    const std::size_t number = gathers_++;
    link_->put(number, getRank(), part);
    return c10::make_intrusive<GatherWork>(link_, number, whole);
  }

  const std::shared_ptr<SlowLink> link_;
  std::size_t gathers_ = 0;
};

}  // namespace

void SlowLink::set_delay(Clock::duration delay) {
  const std::lock_guard lock(mutex_);
  delay_ = delay;
}

void SlowLink::put(std::size_t number, int rank, const at::Tensor& part) {
  const std::lock_guard lock(mutex_);
  Gather& gather = gathers_[number];
  gather.parts.resize(static_cast<std::size_t>(ranks_));
  gather.parts[static_cast<std::size_t>(rank)] = part;
  if (++gather.put == ranks_) {
    gather.arrival = Clock::now() + delay_;
    changed_.notify_all();
  }
}

void SlowLink::take(std::size_t number, at::Tensor whole) {
  std::unique_lock lock(mutex_);
  Gather& gather = gathers_.at(number);
  changed_.wait(lock, [&] { return gather.arrival.has_value(); });
  lock.unlock();
  std::this_thread::sleep_until(*gather.arrival);
  at::cat_out(whole, gather.parts);
  lock.lock();
  if (++gather.taken == ranks_) {
    gathers_.erase(number);
  }
}

c10::intrusive_ptr<c10d::ProcessGroup> join(std::shared_ptr<SlowLink> link, int rank) {
  auto group = c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<c10d::HashStore>(), rank,
                                                       link->ranks());
  group->setDefaultBackend(c10d::ProcessGroup::CUSTOM);
  group->setBackend(at::kCPU, c10d::ProcessGroup::CUSTOM,
                    c10::make_intrusive<SlowLinkBackend>(std::move(link), rank));
  group->setGroupName("slow_link");
  return group;
}

}  // namespace reprise::bench
