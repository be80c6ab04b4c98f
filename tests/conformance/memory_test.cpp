// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Conformance rows 120, 123 and 142: bytes. Row 122 stands in tests/engine.
#include <ATen/Context.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/memory_report.h"
#include "reprise/hooks/save_on_cpu.h"

namespace reprise::memory_test {
namespace {

constexpr std::int64_t kWidth = 256;
constexpr std::int64_t kBatch = 100;
constexpr std::int64_t kActivationBytes = kBatch * kWidth * 4;
constexpr int kBlocks = 8;

std::vector<torch::nn::Sequential> make_blocks(const at::TensorOptions& options) {
  torch::manual_seed(0);
  std::vector<torch::nn::Sequential> blocks;
  for (int i = 0; i < kBlocks; ++i) {
    torch::nn::Sequential block(torch::nn::Linear(kWidth, kWidth),
                                torch::nn::Linear(kWidth, kWidth),
                                torch::nn::Linear(kWidth, kWidth));
    block->to(options.device());
    blocks.push_back(block);
  }
  return blocks;
}

at::Tensor run_blocks(const std::vector<torch::nn::Sequential>& blocks, at::Tensor x,
                      bool as_regions) {
  for (const auto& block : blocks) {
    x = as_regions ? checkpoint(block.ptr(), x) : block.ptr()->forward(x);
  }
  return x;
}

struct StepMemory {
  std::int64_t kept_bytes = 0;  // by forward, its result included
  std::int64_t peak_bytes = 0;
};

// Of a second step, when gradients exist already.
StepMemory measure_step(bool as_regions) {
  const auto blocks = make_blocks(at::kCPU);
  const auto x = at::randn({kBatch, kWidth});
  run_blocks(blocks, x, as_regions).sum().backward();

  const std::int64_t before = cpu_memory().current_bytes;
  reset_peak_cpu_memory();
  StepMemory memory;
  {
    const auto y = run_blocks(blocks, x, as_regions);
    memory.kept_bytes = cpu_memory().current_bytes - before;
    y.sum().backward();
  }
  EXPECT_EQ(cpu_memory().current_bytes, before);
  memory.peak_bytes = cpu_memory().peak_bytes - before;
  return memory;
}

TEST(CheckpointMemoryTest, C120_PeakIsStrictlyBelowThatWithoutRegions) {
  const StepMemory plain = measure_step(false);
  const StepMemory regions = measure_step(true);
  EXPECT_EQ(plain.kept_bytes, 3 * kBlocks * kActivationBytes);
  EXPECT_EQ(regions.kept_bytes, kBlocks * kActivationBytes);
  EXPECT_LT(regions.peak_bytes, plain.peak_bytes);
  // A region's recomputed tensors are freed before the next region is replayed.
  EXPECT_LE(regions.peak_bytes,
            plain.peak_bytes - (2 * kBlocks - 3) * kActivationBytes + kActivationBytes);
}

std::int64_t device_bytes(const std::string& device) {
  for (const DeviceMemory& memory : memory_report().devices) {
    if (memory.device == device) {
      return memory.current_bytes;
    }
  }
  return 0;
}

// Bytes on the accelerator that forward leaves behind, its result included.
std::int64_t bytes_kept_on_device(const std::vector<torch::nn::Sequential>& blocks,
                                  const at::Tensor& x, bool with_grad) {
  const at::AutoGradMode mode(with_grad);
  std::optional<SaveOnCpuGuard> offload;
  if (with_grad) {
    offload.emplace();
  }
  const std::int64_t before = device_bytes(x.device().str());
  const auto y = run_blocks(blocks, x, false);
  return device_bytes(x.device().str()) - before;
}

TEST(CheckpointMemoryTest, C123_OffloadedForwardKeepsItsSavedTensorsOnTheHost) {
  if (!at::hasCUDA()) {
    GTEST_SKIP() << "needs a CUDA device";
  }
  const auto x = at::randn({kBatch, kWidth}, at::TensorOptions(at::kCUDA)).requires_grad_();
  const std::int64_t before = cpu_memory().current_bytes;
  const SaveOnCpuGuard offload;
  const auto y = (x * 2.0).sin().sin().sin();
  EXPECT_EQ(cpu_memory().current_bytes - before, 3 * kActivationBytes);
}

TEST(CheckpointMemoryTest, C142_SaveOnCpuLeavesAsMuchOnTheDeviceAsNoGrad) {
  if (!at::hasCUDA()) {
    GTEST_SKIP() << "needs a CUDA device";
  }
  const at::TensorOptions options(at::Device(at::kCUDA, 0));
  const auto blocks = make_blocks(options);
  const auto x = at::randn({kBatch, kWidth}, options);
  bytes_kept_on_device(blocks, x, true);  // workspaces of the first run
  EXPECT_EQ(bytes_kept_on_device(blocks, x, true), bytes_kept_on_device(blocks, x, false));
}

}  // namespace
}  // namespace reprise::memory_test
