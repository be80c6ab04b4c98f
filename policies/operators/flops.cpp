// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/operators/flops.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace reprise::policies_internal {
namespace {

using Values = std::span<const c10::IValue>;

constexpr std::size_t kTransposedArgument = 6;  // of convolution, after stride, padding, dilation

// Returns the tensor at `index` if it has countable sizes, otherwise null.
const at::Tensor* tensor_at(Values values, std::size_t index) {
  if (index >= values.size() || !values[index].isTensor()) {
    return nullptr;
  }
  const at::Tensor& tensor = values[index].toTensor();
  return tensor.defined() && !tensor.is_nested() ? &tensor : nullptr;
}

// Returns the FLOPs of the product of values[first] and the argument after it: matrices, batches of
// them, or vectors.
template <std::size_t First>
std::int64_t product(Values arguments, Values /*outputs*/) {
  const at::Tensor* a = tensor_at(arguments, First);
  const at::Tensor* b = tensor_at(arguments, First + 1);
  if (a == nullptr || b == nullptr) {
    return 0;
  }
  return 2 * a->numel() * (b->dim() > 1 ? b->size(-1) : 1);
}

std::int64_t convolution(const at::Tensor* strided_over, const at::Tensor* weight) {
  if (strided_over == nullptr || weight == nullptr || weight->numel() == 0) {
    return 0;
  }
  return 2 * strided_over->numel() * (weight->numel() / weight->size(0));
}

std::int64_t forward_convolution(Values arguments, Values outputs) {
  return convolution(tensor_at(outputs, 0), tensor_at(arguments, 1));
}

std::int64_t any_convolution(Values arguments, Values outputs) {
  if (arguments.size() <= kTransposedArgument || !arguments[kTransposedArgument].isBool()) {
    return 0;
  }
  // Each input element of a transposed convolution meets each weight of its channel once.
  return arguments[kTransposedArgument].toBool()
             ? convolution(tensor_at(arguments, 0), tensor_at(arguments, 1))
             : forward_convolution(arguments, outputs);
}

std::int64_t attention(Values arguments) {
  const at::Tensor* query = tensor_at(arguments, 0);
  const at::Tensor* key = tensor_at(arguments, 1);
  const at::Tensor* value = tensor_at(arguments, 2);
  if (query == nullptr || key == nullptr || value == nullptr || query->dim() < 2 ||
      key->dim() < 2 || value->dim() < 2 || query->size(-1) == 0) {
    return 0;
  }
  const std::int64_t queries = query->numel() / query->size(-1);
  return 2 * queries * key->size(-2) * (query->size(-1) + value->size(-1));
}

struct Formula {
  std::string_view op;
  std::int64_t (*count)(Values arguments, Values outputs);
};

constexpr std::array kFormulas = {
    Formula{"aten::mm", product<0>},
    Formula{"aten::addmm", product<1>},
    Formula{"aten::bmm", product<0>},
    Formula{"aten::baddbmm", product<1>},
    Formula{"aten::addmm_", product<1>},
    Formula{"aten::baddbmm_", product<1>},
    Formula{"aten::_addmm_activation", product<1>},
    Formula{"aten::addbmm", product<1>},
    Formula{"aten::mv", product<0>},
    Formula{"aten::addmv", product<1>},
    Formula{"aten::dot", product<0>},
    Formula{"aten::convolution", any_convolution},
    Formula{"aten::_convolution", any_convolution},
    Formula{"aten::convolution_overrideable", any_convolution},
    Formula{"aten::cudnn_convolution", forward_convolution},
    Formula{"aten::mkldnn_convolution", forward_convolution},
    Formula{"aten::miopen_convolution", forward_convolution},
};

bool is_attention_with_heads_first(std::string_view op) {
  return op == "aten::scaled_dot_product_attention" ||
         (op.starts_with("aten::_scaled_dot_product_") &&
          op.find("backward") == std::string_view::npos);
}

}  // namespace

std::int64_t flops(std::string_view op, Values arguments, Values outputs) {
  const auto* formula = std::find_if(kFormulas.begin(), kFormulas.end(),
                                     [op](const Formula& each) { return each.op == op; });
  if (formula != kFormulas.end()) {
    return formula->count(arguments, outputs);
  }
  return is_attention_with_heads_first(op) ? attention(arguments) : 0;
}

}  // namespace reprise::policies_internal
