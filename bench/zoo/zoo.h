// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: zoo.h
//
// Small models of the kinds that C++ programs train, written as such programs write them. The tests
// compare bits and bytes on them, and bench/zoo_table makes the table of docs/models.md.
//
// Not for timing against Python: bench/models has the models that both sides have.
#ifndef REPRISE_BENCH_ZOO_ZOO_H_
#define REPRISE_BENCH_ZOO_ZOO_H_

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/checkpoint_scope.h"

namespace reprise::zoo {

enum class Form : std::uint8_t { kPlain, kFunction, kScope };

// Calls a module by a pointer or holder, or any other callable.
template <class Block, class... Args>
auto call_block(Block& block, const Args&... args) {
  if constexpr (requires { block->forward(args...); }) {
    return block->forward(args...);
  } else {
    return block(args...);
  }
}

// Runs the parts of a model that are to be regions: `run(block, x)` is a plain call,
// `checkpoint(options, block, x)`, or a plain call in a scope. A block is a callable, or a pointer
// to a module.
struct RegionRunner {
  Form form = Form::kPlain;
  CheckpointOptions options = {};

  template <class Block, class... Args>
  auto operator()(Block block, const Args&... args) const {
    if (form == Form::kFunction) {
      return checkpoint(options, block, args...);
    }
    if (form == Form::kScope) {
      const CheckpointScope scope(options);
      return call_block(block, args...);
    }
    return call_block(block, args...);
  }
};

class Model : public torch::nn::Module {
 public:
  // Returns the loss of one step, on the same data each time.
  virtual at::Tensor loss(const RegionRunner& run) = 0;
};

struct Kind {
  std::string name;
  std::string description;
  std::function<std::shared_ptr<Model>(std::int64_t scale)> make;  // scale: of the batch
};

// Returns all kinds, in the order of the table.
const std::vector<Kind>& kinds();

// The constructors, by file.
std::vector<Kind> vision_kinds();
std::vector<Kind> sequence_kinds();
std::vector<Kind> generative_kinds();
std::vector<Kind> rendering_kinds();

template <class Impl>
Kind kind_of(std::string name, std::string description) {
  return {std::move(name), std::move(description), [](std::int64_t scale) {
            torch::manual_seed(0);
            return std::make_shared<Impl>(scale);
          }};
}

}  // namespace reprise::zoo

#endif  // REPRISE_BENCH_ZOO_ZOO_H_
