// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: model.h
//
// The models that the benchmarks train for a step: a row of blocks, each of which a variant may run
// as a region. Their parameters are drawn as those of bench/side_by_side/models.py are, in the same
// order, so that both sides compute the same numbers.
#ifndef REPRISE_BENCH_MODELS_MODEL_H_
#define REPRISE_BENCH_MODELS_MODEL_H_

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace reprise::bench {

using Block = std::function<at::Tensor(const at::Tensor&)>;

struct Model {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor()> enter = {};  // the first block's input
  std::vector<Block> blocks = {};
  std::function<at::Tensor(const at::Tensor&)> loss = {};  // of the last block's result
};

using BlockRunner = std::function<at::Tensor(const Block& block, const at::Tensor& h)>;

// Return the loss of a step; run_plainly() without regions.
inline at::Tensor run_blocks(const Model& model, const BlockRunner& run) {
  at::Tensor h = model.enter();
  for (const Block& block : model.blocks) {
    h = run(block, h);
  }
  return model.loss(h);
}
inline at::Tensor run_plainly(const Model& model) {
  return run_blocks(model, [](const Block& block, const at::Tensor& h) { return block(h); });
}

// The modules of a list, all of one class, as blocks. The list must outlive them.
template <class Impl>
std::vector<Block> blocks_of(const torch::nn::ModuleList& modules) {
  std::vector<Block> blocks;
  for (const auto& module : *modules) {
    blocks.emplace_back(
        [block = module->as<Impl>()](const at::Tensor& h) { return block->forward(h); });
  }
  return blocks;
}

namespace gpt {
enum class Size { kSmall, kLarge };
Model make(bool fused, Size size = Size::kSmall, at::Device device = at::kCPU);
}  // namespace gpt
namespace resnet {
Model make();
}
namespace lstm {
Model make();
}
namespace moe {
Model make();
}
// Not among the models of make_model(): for budgets of memory.
namespace swiglu {
struct Shape {
  int layers = 32;
  int width = 256;
  int hidden = 512;
  int heads = 4;
  int vocabulary = 64;
  int batch = 8;
  int tokens = 128;
};
Model make(const Shape& shape);
}  // namespace swiglu

// gpt, gpt-fused, resnet, lstm or moe, on the CPU. The generator is seeded first.
Model make_model(const std::string& name);

}  // namespace reprise::bench

#endif  // REPRISE_BENCH_MODELS_MODEL_H_
