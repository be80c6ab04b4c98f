// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/property/layered_program.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "tests/property/random_program.h"

namespace reprise::testing {
namespace layered_program {
namespace {

constexpr std::int64_t kRows = 16;
// Of values. The leaves are the matrices between them.
constexpr std::int64_t kWidths[] = {8, 16, 32};
constexpr std::size_t kKinds = std::size(kWidths);

std::size_t kind_of(const at::Tensor& value) {
  return static_cast<std::size_t>(std::find(std::begin(kWidths), std::end(kWidths), value.size(1)) -
                                  std::begin(kWidths));
}

at::Tensor with_width(const at::Tensor& value, std::size_t kind,
                      const std::vector<at::Tensor>& leaves) {
  return kind_of(value) == kind ? value : value.mm(leaves[kind_of(value) * kKinds + kind]);
}

}  // namespace
}  // namespace layered_program

std::vector<at::Tensor> LayeredProgram::make_leaves() {
  std::vector<at::Tensor> leaves;
  for (const std::int64_t rows : layered_program::kWidths) {
    for (const std::int64_t columns : layered_program::kWidths) {
      leaves.push_back(torch::randn({rows, columns}).mul_(0.2).requires_grad_());
    }
  }
  return leaves;
}

at::Tensor LayeredProgram::combine(Random& random, const at::Tensor& a, const at::Tensor& b,
                                   const std::vector<at::Tensor>& leaves) {
  const at::Tensor other = layered_program::with_width(b, layered_program::kind_of(a), leaves);
  switch (pick(random, 4)) {
    case 0:
      return a + other;
    case 1:
      return a * other;
    case 2:
      return (a - other).tanh();
    default:
      return at::cat({a, other}, 0).narrow(0, 4, layered_program::kRows).sigmoid();
  }
}

at::Tensor LayeredProgram::change(Random& random, const at::Tensor& a,
                                  const std::vector<at::Tensor>& leaves) {
  switch (pick(random, 7)) {
    case 0:
      return a.tanh();
    case 1:
      return at::gelu(a);
    case 2:
      return at::layer_norm(a, {a.size(1)});
    case 3:
      return at::dropout(a, 0.3, /*train=*/true);
    case 4:
      return a.softmax(1);
    case 5:
      return a.relu();
    default:
      return a.mm(leaves[layered_program::kind_of(a) * layered_program::kKinds +
                         pick(random, layered_program::kKinds)]);
  }
}

at::Tensor LayeredProgram::run(const std::vector<at::Tensor>& leaves) const {
  Random random(seed_);
  const std::size_t layers = 3 + pick(random, 20);
  const std::size_t width = 1 + pick(random, 4);
  const bool is_loop = pick(random, 3) == 0;
  std::vector<at::Tensor> layer = {
      at::linspace(0.1, 1, layered_program::kRows * layered_program::kWidths[1])
          .view({layered_program::kRows, layered_program::kWidths[1]})};
  layer.front() =
      layer.front().mm(leaves[layered_program::kKinds + pick(random, layered_program::kKinds)]);
  std::vector<at::Tensor> earlier = layer;
  const std::uint64_t layer_seed = random();
  for (std::size_t i = 0; i < layers; ++i) {
    Random each(is_loop ? layer_seed : random());
    std::vector<at::Tensor> next;
    for (std::size_t k = 0; k < width; ++k) {
      const at::Tensor a = layer[pick(each, layer.size())];
      const bool is_far = pick(each, 8) == 0;
      const std::vector<at::Tensor>& others = is_far ? earlier : layer;
      const at::Tensor b = others[pick(each, others.size())];
      next.push_back(pick(each, 2) == 0 ? change(each, a, leaves) : combine(each, a, b, leaves));
    }
    earlier.push_back(layer.front());
    layer = std::move(next);
  }
  at::Tensor sum = layer.front().square().mean();
  for (std::size_t k = 1; k < layer.size(); ++k) {
    sum = sum + layer[k].square().mean();
  }
  return sum;
}

}  // namespace reprise::testing
