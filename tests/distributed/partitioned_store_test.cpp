// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// PartitionedStore by itself.
#include "reprise/partition/partitioned_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "reprise/hooks/host_store.h"
#include "reprise/hooks/stores.h"
#include "reprise/partition/partition_error.h"
#include "tests/distributed/ranks.h"
#include "tests/hooks/diary_store.h"
#include "tests/hooks/store_cases.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/counting.h"
#include "tests/testing/op_recorder.h"

namespace reprise::partitioned_store_test {
namespace {

using store_cases::values;
using testing::bitwise_equal;
using testing::DiaryStore;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::live_cpu_bytes;
using testing::on_ranks;
using testing::OpRecorder;
using testing::Rank;
using ::testing::ThrowsMessage;

std::shared_ptr<PartitionedStore> whole_of(const Rank& rank) {
  return stores::partitioned(rank.group, {.min_bytes = 0});
}

class OnRanksTest : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Ranks, OnRanksTest, ::testing::Values(2, 3, 4),
                         ::testing::PrintToStringParamName());

TEST_P(OnRanksTest, GivesBackEachDtypeAndLayout) {
  on_ranks(GetParam(), [](Rank& rank) { store_cases::expect_all_back(*whole_of(rank), at::kCPU); });
}

TEST_P(OnRanksTest, GivesBackSizesAroundTheNumberOfRanks) {
  on_ranks(GetParam(), [](Rank& rank) {
    const auto store = whole_of(rank);
    for (const std::int64_t size :
         {rank.size - 1, rank.size, rank.size + 1, 0, 1, 16 * rank.size, 16 * rank.size + 1}) {
      for (const at::ScalarType dtype : {at::kByte, at::kFloat, at::kComplexDouble}) {
        SCOPED_TRACE(c10::str(size, " of ", dtype));
        const at::Tensor tensor = store_cases::any_bits({size}, dtype, at::kCPU);
        EXPECT_TRUE(bitwise_equal(store->put(tensor)->get(), tensor));
      }
    }
  });
}

TEST_P(OnRanksTest, PutTogetherTheyComeBackByOneCollective) {
  on_ranks(GetParam(), [](Rank& rank) {
    const auto store = whole_of(rank);
    std::vector<at::Tensor> tensors;
    for (const at::ScalarType dtype : store_cases::dtypes()) {
      for (auto& layout : store_cases::layouts(dtype, at::kCPU)) {
        tensors.push_back(layout.tensor);
      }
    }
    auto stored = store->put_all(tensors, "many");
    const std::uint64_t before = rank.group->getSequenceNumberForGroup();
    const OpRecorder operators;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_TRUE(bitwise_equal(values(stored[i]->get()), values(tensors[i]))) << i;
    }
    EXPECT_EQ(store->counters().gathers, 1U);
    EXPECT_EQ(rank.group->getSequenceNumberForGroup() - before, 1U);
    EXPECT_EQ(operators.count("c10d::_allgather_base_"), 1U);
  });
}

TEST_P(OnRanksTest, EachKeepsItsPartToTheByte) {
  on_ranks(GetParam(), [](Rank& rank) {
    const auto store = whole_of(rank);
    at::Tensor a = at::randn({1000});      // 4000 bytes, then up to 4032
    at::Tensor b = at::randn({7, 3}).t();  // 84
    const at::Tensor copy = a.clone();
    const std::int64_t before = live_cpu_bytes();
    auto stored = store->put_all({a, b}, "");
    const std::int64_t part = ((4032 + 84 + rank.size - 1) / rank.size + 15) / 16 * 16;
    EXPECT_EQ(live_cpu_bytes() - before, part);
    a.reset();
    EXPECT_EQ(live_cpu_bytes() - before, part - 4000);
    EXPECT_LE(stored[0]->device_bytes() + stored[1]->device_bytes(),
              static_cast<std::size_t>(part));
    EXPECT_TRUE(bitwise_equal(stored[0]->get(), copy));
    EXPECT_EQ(live_cpu_bytes() - before, part - 4000 + part * rank.size);
    stored[1]->get();
    EXPECT_TRUE(
        testing::cpu_bytes_come_to(before + part - 4000));  // Gloo's threads hold it a while
    stored.clear();
    EXPECT_EQ(live_cpu_bytes() - before, -4000);
  });
}

TEST(PartitionedStoreTest, PrefetchGathersOnceAndGivesUpAfterUse) {
  on_ranks(2, [](Rank& rank) {
    const auto store = whole_of(rank);
    const at::Tensor a = at::randn({40});
    const at::Tensor b = at::randn({50});
    auto stored = store->put_all({a, b}, "");
    stored[0]->prefetch();
    stored[0]->prefetch();
    stored[1]->prefetch();
    EXPECT_EQ(store->counters().gathers, 1U);
    const at::Tensor first = stored[0]->get();
    EXPECT_TRUE(first.is_alias_of(stored[0]->get()));
    stored[1]->get();
    EXPECT_EQ(store->counters().gathers, 1U);
    EXPECT_FALSE(first.is_alias_of(stored[0]->get()));
    EXPECT_EQ(store->counters().gathers, 2U);
    stored[1].reset();  // nobody waits for it any more
    stored[0]->get();
    EXPECT_EQ(store->counters().gathers, 3U);
  });
}

TEST(PartitionedStoreTest, ReleasesUnusedPrefetchesWithoutWaiting) {
  on_ranks(2, [](Rank& rank) {
    const auto store = whole_of(rank);
    rank.group->barrier()->wait();  // c10d keeps memory of its first barrier
    const std::int64_t before = live_cpu_bytes();
    auto stored = store->put(at::randn({4000}));
    stored->prefetch();
    stored.reset();
    const at::Tensor next = at::randn({10});
    EXPECT_TRUE(bitwise_equal(store->put(next)->get(), next));
    rank.group->barrier()->wait();
    EXPECT_TRUE(testing::cpu_bytes_come_to(before + static_cast<std::int64_t>(next.nbytes())));
  });
}

TEST(PartitionedStoreTest, TensorsOfASlabAreChangedSeparately) {
  on_ranks(2, [](Rank& rank) {
    auto stored = whole_of(rank)->put_all({at::zeros({8}), at::ones({8})}, "");
    const at::Tensor a = stored[0]->get();
    const at::Tensor b = stored[1]->get();
    a.add_(1);
    EXPECT_EQ(b._version(), 0);
    EXPECT_TRUE(at::equal(b, at::ones({8})));
  });
}

TEST(PartitionedStoreTest, ChangeAfterwardsIsNotSeen) {
  on_ranks(2, [](Rank& rank) {
    const at::Tensor x = at::randn({33});
    const at::Tensor expected = x.clone();
    const auto stored = whole_of(rank)->put(x);
    x.fill_(7);
    EXPECT_TRUE(bitwise_equal(stored->get(), expected));
  });
}

TEST(PartitionedStoreTest, KeepsRequiresGradAndNoGraph) {
  on_ranks(2, [](Rank& rank) {
    const at::Tensor x = at::randn({40, 50}).requires_grad_();
    for (const at::Tensor& tensor : {x, x.sin(), x.detach()}) {
      const at::Tensor found = whole_of(rank)->put(tensor)->get();
      EXPECT_EQ(found.requires_grad(), tensor.requires_grad());
      EXPECT_TRUE(found.is_leaf());
    }
  });
}

TEST(PartitionedStoreTest, SmallTensorsStayWhole) {
  on_ranks(2, [](Rank& rank) {
    const auto store = stores::partitioned(rank.group, {.min_bytes = 400});
    const at::Tensor small = at::randn({99});
    const at::Tensor large = at::randn({100});
    EXPECT_TRUE(store->put(small)->get().is_alias_of(small));
    EXPECT_EQ(store->counters().gathers, 0U);
    EXPECT_TRUE(bitwise_equal(store->put(large)->get(), large));
    EXPECT_EQ(store->counters().gathers, 1U);
  });
}

TEST(PartitionedStoreTest, OneRankKeepsEverything) {
  on_ranks(1, [](Rank& rank) {
    const auto store = whole_of(rank);
    const at::Tensor x = at::randn({100});
    EXPECT_TRUE(store->put(x)->get().is_alias_of(x));
    EXPECT_EQ(store->counters().gathers, 0U);
  });
}

TEST(PartitionedStoreTest, SparseTensorsByTheirParts) {
  on_ranks(3, [](Rank& rank) {
    const at::Tensor dense = at::randn({40, 30}) * (at::rand({40, 30}) < 0.2);
    for (const at::Tensor& sparse : {dense.to_sparse(), dense.to_sparse_csr()}) {
      const auto store = whole_of(rank);
      const at::Tensor found = store->put(sparse)->get();
      EXPECT_EQ(found.layout(), sparse.layout());
      EXPECT_TRUE(bitwise_equal(found.to_dense(), sparse.to_dense()));
      EXPECT_GT(store->counters().gathers, 0U);
    }
  });
}

TEST(PartitionedStoreTest, NextStoreHasThePartAndIsPrefetchedFirst) {
  on_ranks(2, [](Rank& rank) {
    const auto first = whole_of(rank);
    const auto diary = std::make_shared<DiaryStore>();
    const auto row = first | diary;
    const std::vector<at::Tensor> tensors = {at::randn({64}), at::randn({64})};
    auto stored = row->put_all(tensors, "");
    EXPECT_EQ(diary->puts(), 1);
    for (const auto& entry : stored) {
      entry->prefetch();
    }
    EXPECT_THAT(diary->take_lines(), ElementsAre("prefetch 0", "prefetch 0"));
    EXPECT_EQ(first->counters().gathers, 0U);
    stored[0]->prefetch();
    EXPECT_THAT(diary->take_lines(), ElementsAre("get 0"));
    EXPECT_EQ(first->counters().gathers, 1U);
    EXPECT_TRUE(bitwise_equal(stored[1]->get(), tensors[1]));
    EXPECT_TRUE(bitwise_equal(stored[0]->get(), tensors[0]));
    EXPECT_THAT(diary->take_lines(), IsEmpty());
  });
}

TEST(PartitionedStoreTest, CombinesWithOtherStores) {
  on_ranks(3, [](Rank& rank) {
    const auto partitioned = whole_of(rank);
    const at::Tensor mask = at::rand({64, 96}) < 0.5;
    const at::Tensor numbers = at::randn({500});
    const at::Tensor indices = at::randint(0, 90, {1000}, at::kLong);
    for (const auto& row :
         {stores::packed() | partitioned, partitioned | stores::host(),
          partitioned | stores::packed(), stores::packed() | partitioned | stores::host()}) {
      auto stored = row->put_all({mask, numbers, indices}, "");
      const std::size_t before = partitioned->counters().gathers;
      EXPECT_TRUE(bitwise_equal(stored[0]->get(), mask));
      EXPECT_TRUE(bitwise_equal(stored[1]->get(), numbers));
      EXPECT_TRUE(bitwise_equal(stored[2]->get(), indices));
      EXPECT_EQ(partitioned->counters().gathers - before, 1U);
    }
  });
}

TEST(PartitionedStoreTest, PackedMaskIsPartitionedAsBits) {
  on_ranks(2, [](Rank& rank) {
    const auto row = stores::packed() | whole_of(rank);
    at::Tensor mask = at::rand({64, 128}) < 0.5;
    const std::int64_t before = live_cpu_bytes();
    const auto stored = row->put(mask);
    EXPECT_EQ(live_cpu_bytes() - before, 64 * 128 / 8 / 2);
  });
}

TEST(PartitionedStoreTest, RefusesWhatIsNoGroup) {
  EXPECT_THAT([] { static_cast<void>(stores::partitioned(nullptr)); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("null pointer")));
  const auto without_store = c10::make_intrusive<c10d::ProcessGroup>(0, 1);
  EXPECT_THAT([&] { static_cast<void>(stores::partitioned(without_store, {.check_order = true})); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("no c10d::Store")));
}

TEST(PartitionedStoreTest, ThrowsForDeviceWithoutBackendAtPut) {
  const auto group =
      c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<c10d::HashStore>(), 0, 2);
  const auto store = stores::partitioned(group);
  EXPECT_THAT([&] { store->put(at::randn({10000})); },
              ThrowsMessage<PartitionError>(HasSubstr("no backend")));
}

}  // namespace
}  // namespace reprise::partitioned_store_test
