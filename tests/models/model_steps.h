// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Steps of the models of the zoo: the bytes that they need, and their results.
#ifndef REPRISE_TESTS_MODELS_MODEL_STEPS_H_
#define REPRISE_TESTS_MODELS_MODEL_STEPS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/zoo/zoo.h"
#include "reprise/engine/cpu_memory.h"

namespace reprise::testing {

struct Step {
  std::int64_t kept = 0;  // after forward
  std::int64_t peak = 0;
  std::vector<at::Tensor> results;  // gradients and buffers
};

// A model of the zoo, of which each step starts with the same buffers and random numbers.
class SteppedModel {
 public:
  SteppedModel(const std::string& name, std::int64_t scale) {
    install_cpu_memory_counter();
    const auto& kinds = zoo::kinds();
    const auto kind = std::find_if(kinds.begin(), kinds.end(),
                                   [&](const zoo::Kind& each) { return each.name == name; });
    model_ = kind->make(scale);
    for (const at::Tensor& buffer : model_->buffers()) {
      buffers_.push_back(buffer.clone());
    }
    run([this] { return model_->loss({}); });  // fills LibTorch's caches
    plain_ = run([this] { return model_->loss({}); });
  }

  zoo::Model& model() const { return *model_; }
  // A step without regions and stores.
  const Step& plain() const { return plain_; }

  // forward: returns the loss.
  Step run(const std::function<at::Tensor()>& forward) {
    reset();
    Step step;
    const std::int64_t before = cpu_memory().current_bytes;
    reset_peak_cpu_memory();
    {
      const at::Tensor loss = forward();
      step.kept = cpu_memory().current_bytes - before;
      loss.backward();
    }
    step.peak = cpu_memory().peak_bytes - before;
    for (const at::Tensor& parameter : model_->parameters()) {
      step.results.push_back(parameter.grad().defined() ? parameter.grad().clone() : at::Tensor());
    }
    for (const at::Tensor& buffer : model_->buffers()) {
      step.results.push_back(buffer.clone());
    }
    return step;
  }

 private:
  void reset() {
    const torch::NoGradGuard no_graph;
    const std::vector<at::Tensor> now = model_->buffers();
    for (std::size_t i = 0; i < now.size(); ++i) {
      now[i].copy_(buffers_[i]);
    }
    model_->zero_grad();
    torch::manual_seed(1);
  }

  std::shared_ptr<zoo::Model> model_;
  std::vector<at::Tensor> buffers_;
  Step plain_;
};

inline std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const zoo::Kind& kind : zoo::kinds()) {
    names.push_back(kind.name);
  }
  return names;
}

// For the name of a test.
inline std::string identifier_of(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_MODELS_MODEL_STEPS_H_
