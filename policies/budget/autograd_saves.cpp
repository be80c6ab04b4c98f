// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/budget/autograd_saves.h"

#include <ATen/core/ivalue.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "absl/container/flat_hash_map.h"

namespace reprise::policies_internal {
namespace {

// Their derivatives read neither an argument nor a result.
constexpr std::array<std::string_view, 13> kLinear = {
    "aten::add",  "aten::sub",      "aten::rsub",           "aten::neg",  "aten::sum",
    "aten::mean", "aten::cat",      "aten::clone",          "aten::copy", "aten::flip",
    "aten::roll", "aten::_to_copy", "aten::constant_pad_nd"};

// Their derivatives read arguments, but no result.
constexpr std::array<std::string_view, 15> kOfArguments = {
    "aten::gelu", "aten::silu",  "aten::sin",      "aten::cos",       "aten::log",
    "aten::abs",  "aten::erf",   "aten::softplus", "aten::embedding", "aten::index_select",
    "aten::pow",  "aten::clamp", "aten::gather",   "aten::where",     "aten::masked_fill"};

// Their derivative in each of two arguments reads the other one only.
constexpr std::array<std::string_view, 4> kProducts = {"aten::mul", "aten::mm", "aten::bmm",
                                                       "aten::convolution"};
constexpr std::array<std::string_view, 2> kProductsWithSum = {"aten::addmm", "aten::baddbmm"};

enum class Kind : std::uint8_t { kAny, kLinear, kOfArguments, kProduct, kProductWithSum };

bool lists(const auto& names, std::string_view op) {
  return std::find(names.begin(), names.end(), op) != names.end();
}

Kind kind_by_name(std::string_view op) {
  if (op.ends_with('_')) {
    op.remove_suffix(1);
  }
  if (lists(kLinear, op)) {
    return Kind::kLinear;
  }
  if (lists(kOfArguments, op)) {
    return Kind::kOfArguments;
  }
  if (lists(kProducts, op)) {
    return Kind::kProduct;
  }
  return lists(kProductsWithSum, op) ? Kind::kProductWithSum : Kind::kAny;
}

Kind cached_kind(const PolicyContext& context) {
  thread_local absl::flat_hash_map<const void*, Kind> t_known;
  const auto [entry, is_new] = t_known.try_emplace(context.op_id(), Kind::kAny);
  if (is_new) {
    entry->second = kind_by_name(context.op());
  }
  return entry->second;
}

bool requires_grad(const PolicyContext& context, std::size_t argument) {
  const auto arguments = context.arguments();
  return argument < arguments.size() && arguments[argument].isTensor() &&
         arguments[argument].toTensor().requires_grad();
}

AutogradSaves product_of(const PolicyContext& context, std::size_t first) {
  const std::size_t second = first + 1;
  const std::uint32_t saves_first = requires_grad(context, second) ? 1U << first : 0;
  const std::uint32_t saves_second = requires_grad(context, first) ? 1U << second : 0;
  return {.arguments = saves_first | saves_second, .results = false};
}

}  // namespace

AutogradSaves autograd_saves(const PolicyContext& context) {
  switch (cached_kind(context)) {
    case Kind::kLinear:
      return {.arguments = 0, .results = false};
    case Kind::kOfArguments:
      return {.results = false};
    case Kind::kProduct:
      return product_of(context, 0);
    case Kind::kProductWithSum:
      return product_of(context, 1);
    case Kind::kAny:
      break;
  }
  return {};
}

}  // namespace reprise::policies_internal
