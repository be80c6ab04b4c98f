// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/device/in_process_ranks.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <deque>
#include <mutex>
#include <optional>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <utility>

#include "tests/testing/device/test_device.h"

namespace reprise::testing {
namespace {

c10::Stream current_stream_of(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

class GatherWork final : public c10d::Work {
 public:
  GatherWork(at::Tensor whole, at::Tensor part)
      : whole_(std::move(whole)), part_(std::move(part)), started_(kDeviceType) {
    started_.record(current_stream_of(part_.device()));
  }
  // Memory that the stream still uses must not be freed.
  ~GatherWork() override {
    if (part_.defined() && done_) {
      done_->synchronize();
    }
  }

  bool wait(std::chrono::milliseconds /*timeout*/) override {
    TORCH_CHECK(done_, "not all ranks have started the collective");
    done_->block(current_stream_of(device_));
    whole_.reset();
    part_.reset();
    return true;
  }

 private:
  friend class Meeting;

  at::Tensor whole_, part_;
  const c10::Device device_ = part_.device();
  c10::Event started_;
  std::optional<c10::Event> done_;
};

// Where the ranks' collectives pair up.
class Meeting {
 public:
  explicit Meeting(int size) : started_(static_cast<std::size_t>(size)) {}

  c10::intrusive_ptr<c10d::Work> gather(int rank, const at::Tensor& whole, const at::Tensor& part) {
    const std::lock_guard lock(mutex_);
    auto work = c10::make_intrusive<GatherWork>(whole, part);
    started_[static_cast<std::size_t>(rank)].push_back(work);
    for (const auto& of_rank : started_) {
      if (of_rank.empty()) {
        return work;
      }
    }
    run(part.device());
    return work;
  }

 private:
  using Works = std::vector<c10::intrusive_ptr<GatherWork>>;

  void run(c10::Device device) {
    const c10::impl::VirtualGuardImpl guard(device.type());
    const c10::StreamGuard on_stream(stream_ ? *stream_
                                             : stream_.emplace(guard.getNewStream(device)));
    Works works;
    for (auto& of_rank : started_) {
      works.push_back(std::move(of_rank.front()));
      of_rank.pop_front();
      works.back()->started_.block(*stream_);
    }
    for (const auto& to : works) {
      for (std::size_t rank = 0; rank < works.size(); ++rank) {
        const at::Tensor& part = works[rank]->part_;
        to->whole_.narrow(0, static_cast<std::int64_t>(rank) * part.numel(), part.numel())
            .copy_(part);
      }
    }
    for (const auto& work : works) {
      work->done_.emplace(device.type()).record(*stream_);
    }
  }

  std::mutex mutex_;
  std::vector<std::deque<c10::intrusive_ptr<GatherWork>>> started_;
  std::optional<c10::Stream> stream_;
};

class InProcessBackend final : public c10d::Backend {
 public:
  InProcessBackend(std::shared_ptr<Meeting> meeting, int rank, int size)
      : Backend(rank, size), meeting_(std::move(meeting)) {}

  const std::string getBackendName() const override { return "in_process"; }

  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& whole, at::Tensor& part,
                                                 const c10d::AllgatherOptions&) override {
    return meeting_->gather(getRank(), whole, part);
  }

 private:
  const std::shared_ptr<Meeting> meeting_;
};

class OnAllRanks final : public StoredTensor {
 public:
  explicit OnAllRanks(std::vector<std::unique_ptr<StoredTensor>> ranks)
      : ranks_(std::move(ranks)) {}

  void prefetch() override {
    for (const auto& rank : ranks_) {
      rank->prefetch();
    }
  }

  at::Tensor get() override {
    prefetch();  // a rank that waits waits for all
    prefetch();  // with stores behind, the second gathers
    at::Tensor tensor;
    for (const auto& rank : ranks_) {
      tensor = rank->get();
    }
    return tensor;
  }

  [[nodiscard]] std::int64_t device_bytes() const override { return ranks_.back()->device_bytes(); }

 private:
  std::vector<std::unique_ptr<StoredTensor>> ranks_;
};

}  // namespace

std::vector<c10::intrusive_ptr<c10d::ProcessGroup>> in_process_ranks(int size) {
  const auto meeting = std::make_shared<Meeting>(size);
  std::vector<c10::intrusive_ptr<c10d::ProcessGroup>> groups;
  for (int rank = 0; rank < size; ++rank) {
    groups.push_back(c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<c10d::HashStore>(),
                                                             rank, size));
    groups.back()->setBackend(kDeviceType, c10d::ProcessGroup::CUSTOM,
                              c10::make_intrusive<InProcessBackend>(meeting, rank, size));
  }
  return groups;
}

AllRanksStore::AllRanksStore(int size, const MakeRow& row) {
  for (const auto& group : in_process_ranks(size)) {
    partitioned_.push_back(stores::partitioned(group, {.min_bytes = 0}));
    ranks_.push_back(row(partitioned_.back()));
  }
}

std::unique_ptr<StoredTensor> AllRanksStore::put(const at::Tensor& tensor) {
  return std::move(put_all({tensor}, "").front());
}

std::vector<std::unique_ptr<StoredTensor>> AllRanksStore::put_all(
    const std::vector<at::Tensor>& tensors, const std::string& owner) {
  std::vector<std::vector<std::unique_ptr<StoredTensor>>> of_ranks;
  for (const auto& rank : ranks_) {
    of_ranks.push_back(rank->put_all(tensors, owner));
  }
  std::vector<std::unique_ptr<StoredTensor>> stored;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::vector<std::unique_ptr<StoredTensor>> entries;
    for (auto& of_rank : of_ranks) {
      entries.push_back(std::move(of_rank[i]));
    }
    stored.push_back(std::make_unique<OnAllRanks>(std::move(entries)));
  }
  return stored;
}

}  // namespace reprise::testing
