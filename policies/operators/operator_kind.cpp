// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/operators/operator_kind.h"

#include <algorithm>
#include <array>

#include "absl/container/flat_hash_map.h"

namespace reprise::policies_internal {
namespace {

constexpr std::array<std::string_view, 4> kMatmuls = {"aten::mm", "aten::addmm", "aten::bmm",
                                                      "aten::baddbmm"};

constexpr std::array<std::string_view, 6> kConvolutions = {
    "aten::convolution",       "aten::_convolution",       "aten::convolution_overrideable",
    "aten::cudnn_convolution", "aten::mkldnn_convolution", "aten::miopen_convolution"};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_attention(std::string_view op) {
  const bool is_aten = op.starts_with("aten::");
  const std::size_t colons = op.rfind("::");
  const std::string_view name = colons == std::string_view::npos ? op : op.substr(colons + 2);
  return (contains(name, "attention") || (!is_aten && contains(name, "attn"))) &&
         !contains(name, "backward") && !contains(name, "bwd");
}

bool is_among(const auto& names, std::string_view op) {
  return std::find(names.begin(), names.end(), op) != names.end();
}

}  // namespace

OperatorKind kind_of(std::string_view op) {
  if (is_among(kMatmuls, op)) {
    return OperatorKind::kMatmul;
  }
  if (is_among(kConvolutions, op)) {
    return OperatorKind::kConvolution;
  }
  return is_attention(op) ? OperatorKind::kAttention : OperatorKind::kOther;
}

OperatorKind kind_of(const PolicyContext& context) {
  thread_local absl::flat_hash_map<const void*, OperatorKind> t_known;
  const auto [entry, is_new] = t_known.try_emplace(context.op_id(), OperatorKind::kOther);
  if (is_new) {
    entry->second = kind_of(context.op());
  }
  return entry->second;
}

}  // namespace reprise::policies_internal
