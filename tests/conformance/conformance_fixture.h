// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Shared by the conformance tests: a fixture that finds leaks after every case, and the comparison
// with the run without checkpointing. C001 to C149 in the names of tests are the requirements that
// docs/semantics.md lists.
#ifndef REPRISE_TESTS_CONFORMANCE_CONFORMANCE_FIXTURE_H_
#define REPRISE_TESTS_CONFORMANCE_CONFORMANCE_FIXTURE_H_

#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/graph_exec_group.h"
#include "reprise/engine/region/frame.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/counting.h"
#include "tests/testing/modules.h"
#include "tests/testing/node_counter.h"

namespace reprise::testing {

using Tensors = std::vector<at::Tensor>;

inline std::int64_t live_frames() { return engine_internal::Frame::live_count(); }

inline at::Tensor cpu_generator_state() { return at::detail::getDefaultCPUGenerator().get_state(); }

inline at::Tensor leaf(at::IntArrayRef sizes) { return torch::randn(sizes).requires_grad_(); }

// Calls code as it is.
struct Plain {
  template <class F, class... Args>
  decltype(auto) operator()(F&& fn, Args&&... args) const {
    return std::invoke(std::forward<F>(fn), std::forward<Args>(args)...);
  }
};

// Calls code as a region.
struct InRegion {
  CheckpointOptions options = {};
  template <class F, class... Args>
  decltype(auto) operator()(F&& fn, Args&&... args) const {
    return checkpoint(options, std::forward<F>(fn), std::forward<Args>(args)...);
  }
};

// Runs `body(run)`, which returns tensors, with `run` plain and as a region, replayed as a function
// and as a tape, from the same generator state: the bits of the tensors and of the generator must
// be the same afterwards.
template <class Body>
void expect_as_plain(Body&& body, CheckpointOptions options = {}) {
  torch::manual_seed(17);
  const Tensors expected = body(Plain{});
  const at::Tensor generator = cpu_generator_state();
  for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
    SCOPED_TRACE(replay == ReplayMode::kTape ? "tape" : "function");
    options.replay = replay;
    torch::manual_seed(17);
    const Tensors got = body(InRegion{options});
    expect_same_bits(got, expected);
    EXPECT_TRUE(bitwise_equal(cpu_generator_state(), generator)) << "the CPU generator";
  }
}

// After each case: as many bytes of tensors and as many frames as before it, no watched node alive,
// and the thread's state as at first.
class ConformanceTest : public ::testing::Test {
 protected:
  ConformanceTest() {
    fill_caches();
    torch::manual_seed(0);
    accept_leaks();
  }

  // What is left until now is accepted.
  void accept_leaks() {
    bytes_ = live_cpu_bytes();
    frames_ = live_frames();
  }

  void TearDown() override {
    // The pool threads of a deep backward let go of it a moment after its caller has the result.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (leaks() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(nodes_.alive(), 0U) << "nodes are left, of " << nodes_.watched();
    EXPECT_EQ(live_cpu_bytes(), bytes_) << "bytes of tensors are left";
    EXPECT_EQ(live_frames(), frames_) << "frames are left";
    EXPECT_FALSE(is_recomputing());
    EXPECT_FALSE(GraphExecGroupGuard::is_active());
    EXPECT_TRUE(at::GradMode::is_enabled());
  }

  // The graph of `output` must be gone at the end of the case.
  const at::Tensor& watch(const at::Tensor& output) {
    nodes_.watch(output);
    return output;
  }

  // The gradients of the sum of `output`, whose graph is watched.
  Tensors gradients(const at::Tensor& output, const Tensors& inputs, bool create_graph = false) {
    watch(output);
    Tensors found = torch::autograd::grad({output.sum()}, inputs, {}, std::nullopt, create_graph);
    for (const at::Tensor& gradient : found) {
      watch(gradient);
    }
    return found;
  }

  std::size_t nodes_alive() { return nodes_.alive(); }

 private:
  bool leaks() {
    return nodes_.alive() != 0 || live_cpu_bytes() != bytes_ || live_frames() != frames_;
  }

  // Memory that LibTorch allocates once per process, at first use.
  static void fill_caches() {
    static const bool filled = [] {
      const at::Tensor x = leaf({2, 2});
      checkpoint([](const at::Tensor& t) { return torch::dropout(t.mm(t), 0.5, true); }, x)
          .sum()
          .backward();
      return true;
    }();
    static_cast<void>(filled);
  }

  NodeCounter nodes_;
  std::int64_t bytes_ = 0;
  std::int64_t frames_ = 0;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_CONFORMANCE_CONFORMANCE_FIXTURE_H_
