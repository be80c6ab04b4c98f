// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Regions beside what Python sets on a thread: hooks on LibTorch's own stack, the flag of a
// compiler that traces, the dispatch keys of modes.
#include <ATen/core/PythonFallbackKernel.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <optional>

#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/tape/tape_context.h"
#include "reprise/policies/checkpoint_policy.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/testing/python_state.h"

namespace reprise::engine_python_state_test {
namespace {

using testing::expect_as_plain;
using testing::leaf;
using testing::live_frames;
using testing::PushedHooks;
using testing::Tensors;
using testing::Tracing;

using EnginePythonStateTest = testing::ConformanceTest;

TEST_F(EnginePythonStateTest, TensorsSavedUnderHooksPushedInARegionAreNotOfIt) {
  const auto body = [&](auto run) -> Tensors {
    const at::Tensor x = leaf({3});
    const at::Tensor y = run(
        [](const at::Tensor& t) {
          const PushedHooks pushed;
          return t.exp();
        },
        x);
    EXPECT_EQ(live_frames(), 0);
    return gradients(y, {x});
  };
  expect_as_plain(body);
}

TEST_F(EnginePythonStateTest, RegionGoesOnAfterPushedHooks) {
  expect_as_plain([&](auto run) -> Tensors {
    const at::Tensor x = leaf({3});
    const at::Tensor y = run(
        [](const at::Tensor& t) {
          at::Tensor h = t.sin();
          {
            const PushedHooks pushed;
            h = h * 2;
          }
          return h.exp().cos();
        },
        x);
    return gradients(y, {x});
  });
}

TEST_F(EnginePythonStateTest, RegionThatACompilerTracesIsNone) {
  const at::Tensor x = leaf({3});
  int asked = 0;
  const auto policy = [&asked](const PolicyContext&) {
    ++asked;
    return CheckpointPolicy::MUST_SAVE;
  };
  const Tracing tracing;
  for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
    int runs = 0;
    const at::Tensor y = checkpoint(
        {.policy = policy, .replay = replay},
        [&runs](const at::Tensor& t) {
          ++runs;
          return t.sin().exp();
        },
        x);
    EXPECT_EQ(live_frames(), 0);
    EXPECT_TRUE(testing::bitwise_equal(gradients(y, {x})[0], gradients(x.sin().exp(), {x})[0]));
    EXPECT_EQ(runs, 1);
  }
  {
    const CheckpointScope scope;
    x.sin();
    EXPECT_EQ(live_frames(), 0);
  }
  EXPECT_EQ(asked, 0);
}

// Returns how often a policy was asked in a region that runs `code`.
template <class Code>
int times_asked(ReplayMode replay, Code code, const at::Tensor& x) {
  int asked = 0;
  const auto policy = [&asked](const PolicyContext&) {
    ++asked;
    return CheckpointPolicy::PREFER_RECOMPUTE;
  };
  checkpoint({.policy = policy, .replay = replay}, code, x);
  return asked;
}

TEST_F(EnginePythonStateTest, OperatorsTracedInsideARegionAreNotOfIt) {
  const auto traces_inside = [](const at::Tensor& t) {
    {
      const Tracing tracing;
      t.exp().exp();
    }
    return t.sin();
  };
  const at::Tensor x = leaf({3});
  for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
    EXPECT_EQ(times_asked(replay, traces_inside, x), 1);
  }
  expect_as_plain([&](auto run) -> Tensors {
    const at::Tensor y = run(traces_inside, x);
    return gradients(y, {x});
  });
}

// Its kernel goes to the state of the thread at the operator's entry, as one in Python does.
at::Tensor doubled_at_entry(const at::Tensor& x) {
  { const at::impl::RestorePythonTLSSnapshot at_entry; }
  return x + x;
}

TEST_F(EnginePythonStateTest, TapeNotesTheStateAtEntryForOperatorsInPython) {
  torch::Library library(torch::Library::FRAGMENT, "reprise_python_state_test", std::nullopt,
                         __FILE__, __LINE__);
  library.def("doubled_at_entry(Tensor x) -> Tensor");
  torch::Library kernels(torch::Library::IMPL, "reprise_python_state_test", c10::DispatchKey::CPU,
                         __FILE__, __LINE__);
  kernels.impl("doubled_at_entry", &doubled_at_entry);
  const auto op = c10::Dispatcher::singleton()
                      .findSchemaOrThrow("reprise_python_state_test::doubled_at_entry", "")
                      .typed<at::Tensor(const at::Tensor&)>();
  const auto forward = [&](const at::Tensor& t) {
    const at::impl::MaybeSetTLSOnEntryGuard entry;
    return t * op.call(t.detach().exp());
  };
  const at::Tensor x = leaf({3});
  const at::Tensor y = checkpoint({.replay = ReplayMode::kTape}, forward, x);
  EXPECT_TRUE(testing::bitwise_equal(gradients(y, {x})[0], gradients(forward(x), {x})[0]));
}

TEST_F(EnginePythonStateTest, TapeDropsTheKeysOfForwardsModes) {
  using c10::DispatchKey;
  using c10::DispatchKeySet;
  const auto has = [](DispatchKeySet keys, DispatchKey key) { return keys.has(key); };
  const DispatchKeySet python({DispatchKey::Python, DispatchKey::PythonTLSSnapshot});
  engine_internal::Tape tape;
  engine_internal::Tape::Context context{.keys = c10::impl::tls_local_dispatch_key_set(),
                                         .default_dtype = c10::ScalarType::Float,
                                         .is_deterministic = false,
                                         .is_grad_enabled = true,
                                         .compute = engine_internal::Tape::kNone};
  context.keys.included_ = context.keys.included_ | python;
  {
    const engine_internal::TapeContextGuard guard(tape, context);
    const auto now = c10::impl::tls_local_dispatch_key_set().included_;
    EXPECT_FALSE(has(now, DispatchKey::Python));
    EXPECT_FALSE(has(now, DispatchKey::PythonTLSSnapshot));
  }
  context.keys = c10::impl::tls_local_dispatch_key_set();
  const c10::impl::IncludeDispatchKeyGuard mode_now(DispatchKey::Python);
  const engine_internal::TapeContextGuard guard(tape, context);
  EXPECT_TRUE(has(c10::impl::tls_local_dispatch_key_set().included_, DispatchKey::Python));
}

}  // namespace
}  // namespace reprise::engine_python_state_test
