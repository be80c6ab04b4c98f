// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "projection.h"

#include <cmath>

namespace llama_lora {
namespace {

constexpr double kAdapterScale = 2;  // alpha / rank in the paper's terms

double unit_deviation(std::int64_t in) { return 1 / std::sqrt(static_cast<double>(in)); }

}  // namespace

ProjectionImpl::ProjectionImpl(std::int64_t in, std::int64_t out, double gain)
    : weight_(register_parameter("weight", torch::randn({out, in}) * (gain * unit_deviation(in)))) {
}

void ProjectionImpl::adapt(std::int64_t rank) {
  const std::int64_t in = weight_.size(1);
  const torch::Tensor down = torch::randn({rank, in}) * unit_deviation(in);
  const torch::Tensor up = torch::zeros({weight_.size(0), rank});
  if (!adapter_down_.defined()) {
    adapter_down_ = register_parameter("adapter_down", down);
    adapter_up_ = register_parameter("adapter_up", up);
    return;
  }
  adapter_down_.set_data(down);
  adapter_up_.set_data(up);
}

torch::Tensor ProjectionImpl::forward(const torch::Tensor& x) {
  const torch::Tensor y = torch::linear(x, weight_);
  if (!adapter_down_.defined()) {
    return y;
  }
  const torch::Tensor update = torch::linear(torch::linear(x, adapter_down_), adapter_up_);
  return torch::add(y, update, kAdapterScale);
}

}  // namespace llama_lora
