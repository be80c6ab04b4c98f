// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Parts that are copied, gathered and got on several streams, late enough that a missing wait is a
// wrong result.
#include "reprise/partition/partitioned_store.h"

#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/hooks/disk_store.h"
#include "reprise/hooks/host_store.h"
#include "reprise/hooks/slab_store.h"
#include "reprise/hooks/stores.h"
#include "tests/device/device_cases.h"
#include "tests/device/in_process_ranks.h"
#include "tests/hooks/store_cases.h"
#include "tests/testing/bitwise.h"

namespace reprise::device_partitioned_store_test {
namespace {

using namespace device_cases;  // NOLINT(google-build-using-namespace)
using testing::AllRanksStore;
using testing::bitwise_equal;
using testing::MakeRow;

// The store behind a rank's PartitionedStore.
struct RowCase {
  std::string name;
  MakeRow make;
  std::function<void()> settle = [] {};  // so that the device's memory is let go of
};

std::vector<RowCase> row_cases() {
  const auto behind = [](const std::shared_ptr<ActivationStore>& next) -> MakeRow {
    return [next](auto partitioned) { return partitioned | next; };
  };
  const auto host = stores::host(all());
  return {{"as it is", [](auto partitioned) { return partitioned; }},
          {"before a slab", behind(stores::slab({.min_bytes = 0}))},
          {"before a host", behind(host), [host] { settle(*host); }},
          {"before a disk", behind(stores::disk({.min_bytes = 0, .keep_last = 0}))},
          {"behind packed",
           [](auto partitioned) { return stores::packed({.min_bytes = 0}) | partitioned; }}};
}

// Holds up a stream until it is opened.
class Gate {
 public:
  explicit Gate(const c10::Stream& stream) {
    testing::enqueue(stream.device_index(), stream.id(), testing::Work::kKernel, 0,
                     [opened = opened_.get_future().share()] { opened.wait(); });
  }
  ~Gate() {
    if (!is_open_) {
      opened_.set_value();
    }
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // When other streams have had time for work that does not wait for this one.
  void open() {
    std::this_thread::sleep_for(milliseconds(30));
    is_open_ = true;
    opened_.set_value();
  }

 private:
  std::promise<void> opened_;
  bool is_open_ = false;
};

class PartitionedOnStreamsTest : public ::testing::Test {
 protected:
  PartitionedOnStreamsTest() { wait(); }
  ~PartitionedOnStreamsTest() override { wait(); }

  // `test` with a store of two ranks for each row.
  static void for_each_row(const std::function<void(AllRanksStore& store)>& test) {
    for (const RowCase& row : row_cases()) {
      SCOPED_TRACE(row.name);
      AllRanksStore store(2, row.make);
      test(store);
      wait();
    }
  }

  static constexpr std::int64_t kNumel = 2000;

  const at::Tensor values_ = at::randn({kNumel});
  const at::Tensor input_ = on_device(values_);
  const at::Tensor nines_ = on_device(at::full({kNumel}, 9.0));
  const c10::Stream default_ = default_stream();
  const c10::Stream side_ = side_stream();
  const c10::Stream other_side_ = side_stream();
};

TEST_F(PartitionedOnStreamsTest, EachDtypeAndLayoutComesBack) {
  AllRanksStore store(3, row_cases()[0].make);
  store_cases::expect_all_back(store, test_device());
}

// A kernel still has to write what is put, and kernels that are queued later overwrite its memory.
TEST_F(PartitionedOnStreamsTest, PartIsCopiedBehindTheProducerAndBeforeTheNextWriter) {
  for_each_row([this](AllRanksStore& store) {
    at::Tensor first, second;
    {
      const DelayGuard late(
          {.kernel = milliseconds(3), .copy_out = milliseconds(5), .copy_in = milliseconds(5)});
      at::Tensor freed = input_ + 1;
      const at::Tensor overwritten = input_ + 2;
      const auto stored_first = store.put(freed);
      const auto stored_second = store.put(overwritten);
      freed.reset();
      for (int i = 0; i < 3; ++i) {
        static_cast<void>(nines_ * 7);
      }
      overwritten.detach().fill_(7);
      stored_first->prefetch();
      stored_second->prefetch();
      first = stored_first->get() * 2;
      second = stored_second->get() * 2;
    }
    EXPECT_TRUE(bitwise_equal(first.cpu(), (values_ + 1) * 2));
    EXPECT_TRUE(bitwise_equal(second.cpu(), (values_ + 2) * 2));
  });
}

TEST_F(PartitionedOnStreamsTest, GatherThatIsStartedElsewhereWaitsForThePart) {
  for_each_row([this](AllRanksStore& store) {
    Gate gate(side_);
    std::unique_ptr<StoredTensor> stored;
    {
      const c10::StreamGuard on_side(side_);
      stored = store.put(input_);
    }
    stored->prefetch();
    stored->prefetch();
    const at::Tensor read = stored->get() * 2;
    gate.open();
    EXPECT_TRUE(bitwise_equal(read.cpu(), values_ * 2));
  });
}

TEST_F(PartitionedOnStreamsTest, StreamThatGetsItWaitsForTheGather) {
  for_each_row([this](AllRanksStore& store) {
    const DelayGuard late({.kernel = milliseconds(3)});
    const auto stored = store.put(input_);
    stored->prefetch();
    stored->prefetch();
    const c10::StreamGuard on_side(side_);
    const at::Tensor read = stored->get() * 2;
    EXPECT_TRUE(bitwise_equal(read.cpu(), values_ * 2));
  });
}

TEST_F(PartitionedOnStreamsTest, OverwritesGatheredMemoryOnlyAfterOtherStreamsReadIt) {
  for_each_row([this](AllRanksStore& store) {
    const DelayGuard at_once({.free_at_once = true});
    auto stored = store.put(input_);
    stored->prefetch();
    stored->prefetch();
    Gate gate(side_);
    at::Tensor read;
    {
      const c10::StreamGuard on_side(side_);
      at::Tensor found = stored->get();
      read = found * 2;
      found.reset();
      stored.reset();
    }
    gate.open();
    const c10::StreamGuard on_side(side_);
    EXPECT_TRUE(bitwise_equal(read.cpu(), values_ * 2));
  });
}

// Of each rank: put on the one, prefetched on the default stream, and got on the other. The part is
// gone in the end, but the collective, for which the last stream waits, has still to read it.
std::vector<at::Tensor> got_elsewhere(const RowCase& row, const at::Tensor& tensor,
                                      const c10::Stream& first, const c10::Stream& last) {
  std::vector<std::unique_ptr<StoredTensor>> stored;
  for (const auto& group : testing::in_process_ranks(2)) {
    const c10::StreamGuard on_first(first);
    stored.push_back(row.make(stores::partitioned(group, {.min_bytes = 0}))->put(tensor));
  }
  row.settle();
  settled_device_bytes();
  for (const auto& of_rank : stored) {
    of_rank->prefetch();
    of_rank->prefetch();
  }
  const c10::StreamGuard on_last(last);
  std::vector<at::Tensor> found;
  for (const auto& of_rank : stored) {
    found.push_back(of_rank->get());
  }
  return found;
}

TEST_F(PartitionedOnStreamsTest, PartIsNotOverwrittenBeforeItIsGathered) {
  const DelayGuard late({.kernel = milliseconds(5), .free_at_once = true});
  for (const RowCase& row : row_cases()) {
    SCOPED_TRACE(row.name);
    const auto all_found = got_elsewhere(row, input_, side_, other_side_);
    const c10::StreamGuard on_other_side(other_side_);
    for (const at::Tensor& found : all_found) {
      EXPECT_TRUE(bitwise_equal(found.cpu(), values_));
    }
  }
}

TEST_F(PartitionedOnStreamsTest, NorByTheNextPartOfASlab) {
  const auto slab = stores::slab({.initial_bytes = 2 * kNumel * 4, .min_bytes = 0});
  const DelayGuard late({.kernel = milliseconds(5)});
  const auto all_found = got_elsewhere(
      {"slab", [&](auto partitioned) { return partitioned | slab; }}, input_, side_, other_side_);
  EXPECT_EQ(slab->counters().used_bytes, 0U);
  const auto other = slab->put(nines_);
  EXPECT_EQ(slab->counters().slabs, 1);  // so it has the same memory
  const c10::StreamGuard on_other_side(other_side_);
  for (const at::Tensor& found : all_found) {
    EXPECT_TRUE(bitwise_equal(found.cpu(), values_));
  }
}

at::Tensor three_regions(const CheckpointOptions& options, const at::Tensor& leaf) {
  at::Tensor h = leaf.exp();
  for (int i = 0; i < 3; ++i) {
    h = h + checkpoint(
                options, [](const at::Tensor& t) { return t.sin().tanh(); }, h);
  }
  return h.sum();
}

at::Tensor gradient(const at::Tensor& loss, const at::Tensor& leaf) {
  return torch::autograd::grad({loss}, {leaf})[0];
}

TEST_F(PartitionedOnStreamsTest, RegionsHavePlainGradientsHoweverLateTheStreams) {
  const at::Tensor leaf = on_device(values_).requires_grad_();
  const at::Tensor expected = gradient(three_regions({}, leaf), leaf).cpu();
  for (const Delays& delays : delay_cases()) {
    const DelayGuard delaying(delays);
    for (const RowCase& row : row_cases()) {
      for (const int depth : {0, 1, 2}) {
        SCOPED_TRACE(c10::str(row.name, ", depth ", depth));
        const auto store = std::make_shared<AllRanksStore>(2, row.make);
        const CheckpointOptions options{.input_store = store, .prefetch_depth = depth};
        EXPECT_TRUE(bitwise_equal(gradient(three_regions(options, leaf), leaf).cpu(), expected));
        EXPECT_EQ(store->partitioned().counters().gathers, 3U);
      }
    }
  }
}

// The backward of one prefetches for the other, whose stream it knows nothing of.
TEST_F(PartitionedOnStreamsTest, RegionsPrefetchForThoseOfAnotherStream) {
  const at::Tensor leaf = on_device(values_).requires_grad_();
  const at::Tensor late_leaf = on_device(values_).requires_grad_();
  const at::Tensor expected = gradient(three_regions({}, leaf), leaf).cpu();
  const auto store = std::make_shared<AllRanksStore>(2, row_cases()[0].make);
  const CheckpointOptions options{.input_store = store};
  wait();
  Gate gate(side_);
  at::Tensor late_loss;
  {
    const c10::StreamGuard on_side(side_);
    late_loss = three_regions(options, late_leaf);
  }
  const at::Tensor loss = three_regions(options, leaf);
  const at::Tensor found = gradient(loss, leaf);
  EXPECT_EQ(store->partitioned().counters().gathers, 3U + 1U);
  gate.open();
  const c10::StreamGuard on_side(side_);
  EXPECT_TRUE(bitwise_equal(gradient(late_loss, late_leaf).cpu(), expected));
  wait();
  EXPECT_TRUE(bitwise_equal(found.cpu(), expected));
}

}  // namespace
}  // namespace reprise::device_partitioned_store_test
