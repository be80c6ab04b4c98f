// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// How scattered forward leaves memory: the inputs of regions where they were made, between the
// holes that temporary tensors have left, and the same in a slab. Prints JSON.
//
// Tensors of the CPU get parts of one arena for that: the smallest free part that is large enough,
// else more at the end, with free neighbours joined, as allocators of devices do it.
#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <iterator>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/hooks/slab_store.h"

namespace reprise::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kLayers = 24;

// Lives as long as the process.
class Arena final : public c10::Allocator {
 public:
  static Arena& get() {
    static Arena* const arena = new Arena();
    return *arena;
  }

  c10::DataPtr allocate(std::size_t size) override {
    const std::lock_guard lock(mutex_);
    const std::size_t rounded =
        std::max<std::size_t>(1, (size + kAlignment - 1) / kAlignment) * kAlignment;
    auto best = free_.end();
    for (auto part = free_.begin(); part != free_.end(); ++part) {
      if (part->second >= rounded && (best == free_.end() || part->second < best->second)) {
        best = part;
      }
    }
    std::size_t offset = end_;
    if (best == free_.end()) {
      end_ += rounded;
      TORCH_CHECK(end_ <= kCapacity, "the arena is full");
    } else {
      offset = best->first;
      const std::size_t rest = best->second - rounded;
      free_.erase(best);
      if (rest > 0) {
        free_.emplace(offset + rounded, rest);
      }
    }
    used_.emplace(offset, rounded);
    char* const data = base_ + offset;
    return {data, data, &Arena::release, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, std::size_t size) const override {
    std::memcpy(to, from, size);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Arena::release; }

  // The end of the arena, and what is free in front of it.
  Json report() {
    const std::lock_guard lock(mutex_);
    std::size_t used = 0;
    std::size_t largest = 0;
    std::size_t holes = 0;
    std::size_t end = 0;
    for (const auto& [offset, size] : used_) {
      holes += offset > end ? 1 : 0;
      largest = std::max(largest, offset - end);
      end = offset + size;
      used += size;
    }
    return {{"used_bytes", used},
            {"end_bytes", end},
            {"hole_bytes", end - used},
            {"holes", holes},
            {"largest_hole_bytes", largest},
            {"peak_end_bytes", end_}};
  }

 private:
  static constexpr std::size_t kAlignment = 512;
  static constexpr std::size_t kCapacity = std::size_t{1} << 32;

  Arena()
      : base_(static_cast<char*>(::mmap(nullptr, kCapacity, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {}

  static void release(void* data) { get().free(static_cast<char*>(data)); }
  void free(char* data) {
    const std::lock_guard lock(mutex_);
    const auto used = used_.find(static_cast<std::size_t>(data - base_));
    auto part = free_.emplace(used->first, used->second).first;
    used_.erase(used);
    if (const auto next = std::next(part);
        next != free_.end() && part->first + part->second == next->first) {
      part->second += next->second;
      free_.erase(next);
    }
    if (part != free_.begin()) {
      const auto before = std::prev(part);
      if (before->first + before->second == part->first) {
        before->second += part->second;
        free_.erase(part);
      }
    }
  }

  char* const base_;
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> used_;  // sizes by offset
  std::map<std::size_t, std::size_t> free_;
  std::size_t end_ = 0;
};

// As of a model whose batches differ in length: each layer's temporary tensors fit the holes of the
// one before or do not.
at::Tensor step(const CheckpointOptions& options, const std::vector<at::Tensor>& weights,
                std::int64_t length) {
  at::Tensor h = at::ones({length, 256}) * 0.01;
  for (int i = 0; i < kLayers; ++i) {
    const at::Tensor& up = weights[static_cast<std::size_t>(i % 2)];
    h = checkpoint(
        options,
        [&up](const at::Tensor& t) { return t + at::gelu(t.matmul(up)).matmul(up.t()) * 0.01; }, h);
  }
  return h.sum();
}

Json measure(const CheckpointOptions& options) {
  torch::manual_seed(0);
  const std::vector<at::Tensor> weights = {at::randn({256, 512}).requires_grad_(),
                                           at::randn({256, 768}).requires_grad_()};
  Json result;
  for (const std::int64_t length : {1024, 640, 896, 512, 1024}) {
    const at::Tensor loss = step(options, weights, length);
    result = Arena::get().report();
    loss.backward();
  }
  return result;
}

}  // namespace
}  // namespace reprise::bench

int main(int argc, char** argv) {
  CLI::App app(
      "What forward leaves of the heap, with regions' inputs where they are or in a slab.");
  bool slab = false;
  app.add_flag("--slab", slab, "in a slab");
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(1);
  c10::SetCPUAllocator(&reprise::bench::Arena::get(), /*priority=*/100);
  reprise::CheckpointOptions options;
  if (slab) {
    options.input_store = reprise::stores::slab();
  }
  std::cout << reprise::bench::measure(options).dump(1) << '\n';
  return 0;
}
