// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "bench/models/variants.h"

#include <utility>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/checkpoint_scope.h"
#include "reprise/policies/policies.h"

namespace reprise::bench {
namespace {

at::Tensor run_twice(const Model& model) {
  run_plainly(model);
  return run_plainly(model);
}

at::Tensor run_twice_with_one_graph(const Model& model) {
  {
    const at::NoGradGuard no_graph;
    run_plainly(model);
  }
  return run_plainly(model);
}

std::function<at::Tensor(const Model&)> each_block(BlockRunner run) {
  return [run = std::move(run)](const Model& model) { return run_blocks(model, run); };
}

std::function<at::Tensor(const Model&)> in_function(PolicyHolder policy = {}) {
  return each_block([policy = std::move(policy)](const Block& block, const at::Tensor& h) {
    return checkpoint({.policy = policy}, block, h);
  });
}

std::function<at::Tensor(const Model&)> in_scope(PolicyHolder policy = {}) {
  return each_block([policy = std::move(policy)](const Block& block, const at::Tensor& h) {
    const CheckpointScope scope({.policy = policy});
    return block(h);
  });
}

// Two regions of half the blocks each, and a region for each block in them.
at::Tensor run_nested(const Model& model) {
  const std::size_t half = model.blocks.size() / 2;
  at::Tensor h = model.enter();
  for (std::size_t first = 0; first < model.blocks.size(); first += half) {
    h = checkpoint(
        [&model, first, half](at::Tensor x) {
          for (std::size_t i = first; i < first + half; ++i) {
            x = checkpoint(model.blocks[i], x);
          }
          return x;
        },
        h);
  }
  return model.loss(h);
}

}  // namespace

const std::vector<Variant>& variants() {
  static const std::vector<Variant> kVariants = {
      {"none", run_plainly},
      {"floor", run_twice, Measured::kTime},
      {"floor, one graph", run_twice_with_one_graph, Measured::kTime},
      {"full", in_function()},
      {"selective", in_function(policies::save_compute_intensive())},
      {"every-2nd-matmul", in_function(policies::every_nth_matmul(2))},
      {"nested", run_nested},
      {"scope", in_scope()},
      {"scope+selective", in_scope(policies::save_compute_intensive())},
      {"save-nothing", in_function(policies::save_nothing()), Measured::kMemory},
      {"save-matmuls", in_function(policies::save_matmuls()), Measured::kMemory},
      {"save-everything", in_function(policies::save_everything()), Measured::kMemory},
      {"scope+every-2nd-matmul", in_scope(policies::every_nth_matmul(2)), Measured::kMemory},
      {"scope+save-nothing", in_scope(policies::save_nothing()), Measured::kMemory},
      {"scope+save-matmuls", in_scope(policies::save_matmuls()), Measured::kMemory},
      {"scope+save-everything", in_scope(policies::save_everything()), Measured::kMemory},
  };
  return kVariants;
}

}  // namespace reprise::bench
