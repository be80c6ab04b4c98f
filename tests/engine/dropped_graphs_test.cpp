// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Graphs that a region's code drops before it ends: a replay retains nothing for them.
#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/errors.h"
#include "reprise/engine/recomputing.h"
#include "reprise/policies/policies.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::dropped_graphs_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class DroppedGraphsTest : public ConformanceTest {
 protected:
  static at::Tensor layers(at::Tensor h) {
    for (int i = 0; i < 4; ++i) {
      h = h.sin().tanh();
    }
    return h;
  }

  // Of a step, in tensors as large as `x`.
  template <typename Step>
  static std::int64_t peak(const at::Tensor& x, const Step& step) {
    step();  // the first step allocates more
    const std::int64_t before = cpu_memory().current_bytes;
    reset_peak_cpu_memory();
    step();
    return (cpu_memory().peak_bytes - before) / static_cast<std::int64_t>(x.nbytes());
  }
};

TEST_F(DroppedGraphsTest, TakeNoMemoryInAReplay) {
  const at::Tensor x = leaf({64, 64});
  const auto dropped = [](const at::Tensor& t) {
    at::Tensor y = layers(t);
    y = layers(t * 2);
    return y;
  };
  const auto without = [](const at::Tensor& t) { return layers(t * 2); };
  const auto step = [&x](const auto& run) {
    const at::Tensor y = run();
    return torch::autograd::grad({y.sum()}, {x})[0];
  };
  const at::Tensor expected = step([&] { return dropped(x); });
  for (const bool early_stop : {true, false}) {
    SCOPED_TRACE(early_stop);
    const CheckpointOptions options{.early_stop = early_stop};
    EXPECT_TRUE(bitwise_equal(step([&] { return checkpoint(options, dropped, x); }), expected));
    const std::int64_t of_one =
        peak(x, [&] { step([&] { return checkpoint(options, without, x); }); });
    const std::int64_t of_both =
        peak(x, [&] { step([&] { return checkpoint(options, dropped, x); }); });
    EXPECT_EQ(of_both, of_one);
    EXPECT_LE(of_both, peak(x, [&] { step([&] { return dropped(x); }); }));
  }
}

// The results that a policy saves go with the graph of the branch, also those that forward has read
// since; the replay runs the branch's code.
TEST_F(DroppedGraphsTest, TakeNoMemoryOfAPolicys) {
  const at::Tensor x = leaf({64, 64});
  const auto dropped = [](const at::Tensor& t) {
    at::Tensor y = layers(t);
    const at::Tensor scale = y.detach().mean();
    y = layers(t * scale);
    return y;
  };
  for (const PolicyHolder& policy :
       {PolicyHolder(policies::save_everything()), PolicyHolder(policies::save_nothing())}) {
    for (const DeterminismCheck check : {DeterminismCheck::kMetadata, DeterminismCheck::kNone}) {
      const CheckpointOptions options{.policy = policy, .determinism_check = check};
      const std::int64_t before = cpu_memory().current_bytes;
      {
        const at::Tensor plain = dropped(x);
        const std::int64_t of_plain = cpu_memory().current_bytes - before;
        const at::Tensor y = checkpoint(options, dropped, x);
        EXPECT_LE(cpu_memory().current_bytes - before, 2 * of_plain);
        for (const bool retain : {true, false}) {
          expect_same_bits(torch::autograd::grad({y.sum()}, {x}, {}, retain),
                           torch::autograd::grad({plain.sum()}, {x}, {}, retain));
        }
      }
      EXPECT_LE(peak(x, [&] { gradients(checkpoint(options, dropped, x), {x}); }),
                peak(x, [&] { gradients(dropped(x), {x}); }));
    }
  }
}

// The last result of a branch may have been read through a pointer. If it is given up for its
// bytes, replays compute it from others, among them one that a write in place has made.
TEST_F(DroppedGraphsTest, MayBeComputedAgainFromWhatAWriteHasMade) {
  const at::Tensor x = leaf({6, 8});
  const auto code = [](const at::Tensor& t) {
    static_cast<void>(at::combinations(t.select(0, 0), 2).prod(1).sin());  // a mask by mul_()
    const at::Tensor h = t.sin().exp();                                    // and drops sin's result
    return h.sin();
  };
  const CheckpointOptions options{.policy =
                                      [](const PolicyContext& context) {
                                        return context.op() == "aten::mul_" ||
                                                       context.op() == "aten::sin"
                                                   ? CheckpointPolicy::PREFER_SAVE
                                                   : CheckpointPolicy::PREFER_RECOMPUTE;
                                      },
                                  .determinism_check = DeterminismCheck::kNone};
  expect_same_bits(gradients(checkpoint(options, code, x), {x}), gradients(code(x), {x}));
}

// Each backward in forward is one in a replay, whose graph must then be whole.
TEST_F(DroppedGraphsTest, AreWholeIfABackwardInsideGoesThroughThem) {
  const auto code = [](const at::Tensor& t) {
    const at::Tensor inner = t.detach().requires_grad_();
    const at::Tensor slope = torch::autograd::grad({layers(inner).sum()}, {inner})[0];
    return (t * slope).sin().exp();
  };
  const at::Tensor x = leaf({8, 8});
  const Tensors expected = gradients(code(x), {x});
  for (const PolicyHolder& policy : {PolicyHolder{}, PolicyHolder(policies::save_everything()),
                                     PolicyHolder(policies::save_nothing())}) {
    for (const DeterminismCheck check : {DeterminismCheck::kMetadata, DeterminismCheck::kNone}) {
      const CheckpointOptions options{.policy = policy, .determinism_check = check};
      expect_same_bits(gradients(checkpoint(options, code, x), {x}), expected);
    }
  }
  const auto outer = [&](const at::Tensor& t) { return checkpoint(code, t.cos()).sin(); };
  expect_same_bits(gradients(checkpoint(outer, x), {x}), gradients(code(x.cos()).sin(), {x}));
}

TEST_F(DroppedGraphsTest, AreAnErrorIfABackwardOfTheReplayAloneReadsThem) {
  const at::Tensor x = leaf({8, 8});
  const auto code = [](const at::Tensor& t) {
    const at::Tensor unused = layers(t).sum();
    if (is_recomputing()) {
      torch::autograd::grad({unused}, {t});
    }
    return t.sin().exp();
  };
  const at::Tensor y = checkpoint(code, x);
  EXPECT_THAT([&] { gradients(y, {x}); },
              ThrowsMessage<DeterminismError>(HasSubstr(
                  "a backward in a recomputation reads a saved tensor of a graph that forward's "
                  "code has dropped without a backward")));
}

}  // namespace
}  // namespace reprise::testing::dropped_graphs_test
