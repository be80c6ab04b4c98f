// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: stepped_model.h
//
// Training steps of the models of the zoo, for tests and benchmarks: the bytes that they need, and
// their results. Not thread-safe: there is one counter of bytes for the process.
#ifndef REPRISE_BENCH_ZOO_STEPPED_MODEL_H_
#define REPRISE_BENCH_ZOO_STEPPED_MODEL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/zoo/zoo.h"
#include "reprise/engine/cpu_memory.h"

namespace reprise::zoo {

struct Step {
  std::int64_t bytes_before = 0;
  std::int64_t kept = 0;            // after forward, beyond bytes_before
  std::int64_t peak = 0;            // beyond bytes_before
  std::vector<at::Tensor> results;  // gradients and buffers
};

// A model of the zoo, of which each step starts with the same buffers and random numbers.
class SteppedModel {
 public:
  SteppedModel(const std::string& name, std::int64_t scale) {
    install_cpu_memory_counter();
    const auto kind = std::find_if(kinds().begin(), kinds().end(),
                                   [&](const Kind& each) { return each.name == name; });
    model_ = kind->make(scale);
    for (const at::Tensor& buffer : model_->buffers()) {
      buffers_.push_back(buffer.clone());
    }
    run([this] { return model_->loss({}); });  // fills LibTorch's caches
    plain_ = run([this] { return model_->loss({}); });
  }

  Model& model() const { return *model_; }
  // A step without regions and stores.
  const Step& plain() const { return plain_; }

  // Makes the next step start as each other one.
  void reset() {
    const torch::NoGradGuard no_graph;
    const std::vector<at::Tensor> now = model_->buffers();
    for (std::size_t i = 0; i < now.size(); ++i) {
      now[i].copy_(buffers_[i]);
    }
    model_->zero_grad();
    torch::manual_seed(1);
  }

  // forward: returns the loss.
  Step run(const std::function<at::Tensor()>& forward) {
    reset();
    Step step;
    step.bytes_before = cpu_memory().current_bytes;
    reset_peak_cpu_memory();
    {
      const at::Tensor loss = forward();
      step.kept = cpu_memory().current_bytes - step.bytes_before;
      loss.backward();
    }
    step.peak = cpu_memory().peak_bytes - step.bytes_before;
    for (const at::Tensor& parameter : model_->parameters()) {
      step.results.push_back(parameter.grad().defined() ? parameter.grad().clone() : at::Tensor());
    }
    for (const at::Tensor& buffer : model_->buffers()) {
      step.results.push_back(buffer.clone());
    }
    return step;
  }

 private:
  std::shared_ptr<Model> model_;
  std::vector<at::Tensor> buffers_;
  Step plain_;
};

}  // namespace reprise::zoo

#endif  // REPRISE_BENCH_ZOO_STEPPED_MODEL_H_
