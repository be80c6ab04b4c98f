// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// memory_report() and explain_policies() for regions under a policy.
#include "reprise/engine/memory_report.h"
#include "reprise/engine/value_annotations.h"
#include "reprise/policies/policies.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::selective_report_test {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class SelectiveReportTest : public ConformanceTest {
 protected:
  static const OperatorReport& entry(const RegionReport& region, const std::string& name,
                                     CheckpointPolicy decision) {
    for (const OperatorReport& op : region.operators) {
      if (op.name == name && op.decision == decision) {
        return op;
      }
    }
    static const OperatorReport kNone;
    ADD_FAILURE() << "no entry for " << name << ", " << to_string(decision);
    return kNone;
  }
};

TEST_F(SelectiveReportTest, SaysForEachOperatorWhatWasDecidedAndAtWhatPrice) {
  const MemoryReportGuard collecting;
  const at::Tensor x = leaf({8, 8});
  for (int step = 0; step < 2; ++step) {
    const at::Tensor y = checkpoint(
        {.name = "block", .policy = policies::every_nth_matmul(2)},
        [](const at::Tensor& t) { return t.mm(t).sin().mm(t).sin().mm(t).sin(); }, x);
    gradients(y, {x});
  }
  const MemoryReport report = memory_report();
  ASSERT_EQ(report.regions.size(), 1U);
  const RegionReport& region = report.regions[0];
  constexpr std::int64_t kMatrix = 8 * 8 * 4;
  EXPECT_EQ(region.kept_bytes, 2 * 3 * kMatrix);  // the input, and two matmuls

  const OperatorReport& kept = entry(region, "aten::mm", CheckpointPolicy::PREFER_SAVE);
  EXPECT_EQ(kept.calls, 2 * 2);
  EXPECT_EQ(kept.kept_bytes, 2 * 2 * kMatrix);
  EXPECT_EQ(kept.dropped_bytes, 0);
  EXPECT_EQ(kept.replays, 0);

  const OperatorReport& dropped = entry(region, "aten::mm", CheckpointPolicy::PREFER_RECOMPUTE);
  EXPECT_EQ(dropped.calls, 2 * 1);
  EXPECT_EQ(dropped.kept_bytes, 0);
  EXPECT_EQ(dropped.dropped_bytes, 2 * kMatrix);
  EXPECT_EQ(dropped.replays, 2 * 1);
  EXPECT_GT(dropped.replay_time.count(), 0);

  const OperatorReport& sine = entry(region, "aten::sin", CheckpointPolicy::PREFER_RECOMPUTE);
  EXPECT_EQ(sine.calls, 2 * 3);
  EXPECT_EQ(sine.replays, 2 * 2);  // the last one is behind the last saved tensor
  EXPECT_EQ(region.operators.size(), 3U);
}

TEST_F(SelectiveReportTest, CountsUnneededResultsAsDropped) {
  const MemoryReportGuard collecting;
  const at::Tensor x = leaf({8});
  const at::Tensor y = checkpoint(
      {.policy = policies::save_everything()}, [](const at::Tensor& t) { return (t + 1).sin(); },
      x);
  const MemoryReport report = memory_report();
  const OperatorReport& sine =
      entry(report.regions.at(0), "aten::sin", CheckpointPolicy::PREFER_SAVE);
  EXPECT_EQ(sine.kept_bytes, 0);
  EXPECT_EQ(sine.dropped_bytes, 8 * 4);
}

TEST_F(SelectiveReportTest, PinsAreDecisions) {
  const MemoryReportGuard collecting;
  const at::Tensor x = leaf({8});
  const at::Tensor y = checkpoint(
      {.policy = policies::save_nothing()},
      [](const at::Tensor& t) { return must_save(t.exp()).sin(); }, x);
  const MemoryReport report = memory_report();
  EXPECT_EQ(entry(report.regions.at(0), "aten::exp", CheckpointPolicy::MUST_SAVE).kept_bytes,
            8 * 4);
}

TEST_F(SelectiveReportTest, NamesTheEntriesThatMatchedNothing) {
  const MemoryReportGuard collecting;
  const at::Tensor x = leaf({4, 4});
  const PolicyHolder policy = policies::save_operators({"aten::mm", "aten::bmm"});
  checkpoint(
      {.name = "block", .policy = policy}, [](const at::Tensor& t) { return t.mm(t).sin(); }, x);
  EXPECT_THAT(memory_report().regions.at(0).unmatched, ElementsAre("aten::bmm"));
  EXPECT_THAT(explain_policies(), HasSubstr("matched nothing: aten::bmm"));
}

TEST_F(SelectiveReportTest, ExplainsRegionsWithAPolicyOnly) {
  const MemoryReportGuard collecting;
  const at::Tensor x = leaf({4, 4});
  const auto code = [](const at::Tensor& t) { return t.mm(t).sin(); };
  checkpoint({.name = "plain"}, code, x);
  EXPECT_THAT(memory_report().regions.at(0).operators, IsEmpty());
  EXPECT_EQ(explain_policies(), "");
  checkpoint({.name = "selective", .policy = policies::save_matmuls()}, code, x);
  EXPECT_THAT(explain_policies(), HasSubstr("region 'selective', 1 runs, 0 replays"));
  EXPECT_THAT(explain_policies(), ContainsRegex("aten::mm +PREFER_SAVE +1 "));
}

TEST_F(SelectiveReportTest, WarnsOfARegionThatKeepsMoreThanAutogradWould) {
  const MemoryReportGuard collecting;
  const at::Tensor x = leaf({256, 256});
  checkpoint(
      {.name = "sums"}, [](const at::Tensor& t) { return t.detach().sum() * 2; }, x * 1);
  checkpoint(
      {.name = "sines"}, [](const at::Tensor& t) { return t.sin().cos(); }, x * 1);
  EXPECT_TRUE(memory_report().regions.at(0).keeps_more_than_autograd());
  EXPECT_FALSE(memory_report().regions.at(1).keeps_more_than_autograd());
  EXPECT_THAT(memory_report().to_string(),
              HasSubstr("warning: region 'sums' keeps 0.25 MiB, and autograd alone would keep 0.00 "
                        "MiB"));
  EXPECT_THAT(memory_report().to_string(), Not(HasSubstr("warning: region 'sines'")));
}

}  // namespace
}  // namespace reprise::testing::selective_report_test
