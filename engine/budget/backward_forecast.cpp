// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/backward_forecast.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace reprise::engine_internal {
namespace {

using hooks_internal::BackwardNode;
using planner::kNone;
using planner::OperatorId;
using planner::Trace;
using planner::ValueId;

// A node's memory, beside the gradients that it receives and returns.
struct NodeMemory {
  int temporaries = 1;           // at most, in gradients of its largest size
  bool passes_on = false;        // returns the gradient that it receives, or a view of it
  bool is_broadcasting = false;  // a smaller gradient is as large as the received one at first
};

NodeMemory memory_of(std::string_view name) {
  constexpr NodeMemory kNoTemporaries{.temporaries = 0};
  constexpr NodeMemory kTwo{.temporaries = 2};
  constexpr NodeMemory kView{.temporaries = 0, .passes_on = true};
  static const auto* const kKnown = new absl::flat_hash_map<std::string_view, NodeMemory>{
      {"AddBackward0", kView},
      {"AliasBackward0", kView},
      {"CloneBackward0", kView},
      {"ExpandBackward0", kView},
      {"PermuteBackward0", kView},
      {"ReshapeAliasBackward0", kView},
      {"SqueezeBackward0", kView},
      {"SqueezeBackward1", kView},
      {"SubBackward0", kView},
      {"TBackward0", kView},
      {"TransposeBackward0", kView},
      {"UnsafeViewBackward0", kView},
      {"UnsqueezeBackward0", kView},
      {"ViewBackward0", kView},
      {"AddmmBackward0", kNoTemporaries},
      {"BmmBackward0", kNoTemporaries},
      {"CatBackward0", kNoTemporaries},
      {"EluBackward0", kNoTemporaries},
      {"EmbeddingBackward0", kNoTemporaries},
      {"ExpBackward0", kNoTemporaries},
      {"GatherBackward0", kNoTemporaries},
      {"GeluBackward0", kNoTemporaries},
      {"GluBackward0", kNoTemporaries},
      {"HardswishBackward0", kNoTemporaries},
      {"HardtanhBackward0", kNoTemporaries},
      {"IndexSelectBackward0", kNoTemporaries},
      {"LeakyReluBackward0", kNoTemporaries},
      {"LogBackward0", kNoTemporaries},
      {"LogSoftmaxBackward0", kNoTemporaries},
      {"MaskedFillBackward0", kNoTemporaries},
      {"MaxPool2DWithIndicesBackward0", kNoTemporaries},
      {"MeanBackward0", kNoTemporaries},
      {"MeanBackward1", kNoTemporaries},
      {"MishBackward0", kNoTemporaries},
      {"MmBackward0", kNoTemporaries},
      {"MulBackward0", {.temporaries = 0, .is_broadcasting = true}},
      {"MulBackward1", kNoTemporaries},
      {"NativeGroupNormBackward0", kNoTemporaries},
      {"NativeLayerNormBackward0", kNoTemporaries},
      {"NegBackward0", kNoTemporaries},
      {"NllLossBackward0", kNoTemporaries},
      {"ReluBackward0", kNoTemporaries},
      {"ScaledDotProductFlashAttentionForCpuBackward0", kNoTemporaries},
      {"SelectBackward0", kNoTemporaries},
      {"SigmoidBackward0", kNoTemporaries},
      {"SiluBackward0", kNoTemporaries},
      {"SliceBackward0", kNoTemporaries},
      {"SoftmaxBackward0", kNoTemporaries},
      {"SoftplusBackward0", kNoTemporaries},
      {"SplitBackward0", kNoTemporaries},
      {"StackBackward0", kNoTemporaries},
      {"SumBackward0", kNoTemporaries},
      {"SumBackward1", kNoTemporaries},
      {"TanhBackward0", kNoTemporaries},
      {"UnbindBackward0", kNoTemporaries},
      {"WhereBackward0", {.temporaries = 0, .is_broadcasting = true}},
      {"Atan2Backward0", {.temporaries = 5, .is_broadcasting = true}},
      {"AtanBackward0", kTwo},
      {"CosBackward0", kTwo},
      {"CumprodBackward0", {.temporaries = 4}},
      {"CumsumBackward0", kTwo},
      {"DivBackward0", {.temporaries = 2, .is_broadcasting = true}},
      {"ErfBackward0", {.temporaries = 4}},
      {"LogsumexpBackward0", kTwo},
      {"MaximumBackward0", {.temporaries = 2, .is_broadcasting = true}},
      {"MinimumBackward0", {.temporaries = 2, .is_broadcasting = true}},
      {"PowBackward0", kTwo},
      {"PowBackward1", {.temporaries = 5, .is_broadcasting = true}},
      {"ReciprocalBackward0", kTwo},
      {"RsqrtBackward0", kTwo},
      {"TanBackward0", kTwo}};
  const auto found = kKnown->find(name);
  if (found != kKnown->end()) {
    return found->second;
  }
  // Formulas of gradients of gradients are products of several factors.
  return name.find("BackwardBackward") == std::string_view::npos ? NodeMemory()
                                                                 : NodeMemory{.temporaries = 3};
}

class Forecast {
 public:
  Forecast(Trace& trace, const std::vector<BackwardNode>& nodes)
      : trace_(trace), nodes_(nodes), received_(nodes.size()) {}

  void add(std::size_t number, std::vector<ValueId> reads) {
    const BackwardNode& node = nodes_[number];
    const std::vector<ValueId>& received = received_[number];
    trace_.operators.push_back(
        {.name = node.name, .can_recompute = false, .reads = std::move(reads)});
    std::int64_t received_bytes = 0;
    for (const ValueId gradient : received) {
      received_bytes = std::max(received_bytes, trace_.values[gradient].bytes);
      if (node.keeps_gradient) {
        trace_.values[gradient].released = kNone;
      } else {
        release(gradient, operator_of(number));
      }
    }
    const NodeMemory memory = memory_of(node.name);
    std::int64_t most_bytes = received_bytes;
    std::int64_t& workspace_bytes = trace_.operators.back().workspace_bytes;
    for (const BackwardNode::Gradient& gradient : node.gradients) {
      const bool is_same =
          memory.passes_on && received.size() == 1 && gradient.bytes == received_bytes;
      pass(number, gradient, is_same ? received.front() : kNone);
      most_bytes = std::max(most_bytes, gradient.bytes);
      workspace_bytes +=
          memory.is_broadcasting && gradient.bytes < received_bytes ? received_bytes : 0;
    }
    workspace_bytes += node.gradients.empty() ? 0 : memory.temporaries * most_bytes;
  }

 private:
  OperatorId operator_of(std::size_t node) const {
    return trace_.backward_begin + static_cast<OperatorId>(node);
  }
  void release(ValueId value, OperatorId op) {
    OperatorId& released = trace_.values[value].released;
    released = released == kNone ? kNone : std::max(released, op);  // none: kept by a leaf
  }

  // A gradient that arrives where another one is waiting is added to that.
  void pass(std::size_t from, const BackwardNode::Gradient& gradient, ValueId passed_on) {
    planner::Operator& op = trace_.operators[operator_of(from)];
    if (!waiting_.emplace(gradient.node, gradient.input).second) {
      op.workspace_bytes += passed_on == kNone ? gradient.bytes : 0;
      return;
    }
    ValueId value = passed_on;
    if (value == kNone) {
      value = trace_.add_value({.bytes = gradient.bytes,
                                .released = operator_of(gradient.node),
                                .kind = planner::ValueKind::kGradient});
      op.results.push_back(value);
    } else {
      release(value, operator_of(gradient.node));
    }
    received_[gradient.node].push_back(value);
  }

  Trace& trace_;
  const std::vector<BackwardNode>& nodes_;
  std::vector<std::vector<ValueId>> received_;                          // by node
  absl::flat_hash_set<std::pair<std::size_t, std::uint32_t>> waiting_;  // by node and input
};

}  // namespace

void append_backward(Trace& trace, const std::vector<BackwardNode>& nodes,
                     absl::FunctionRef<std::vector<ValueId>(const BackwardNode& node)> reads) {
  trace.backward_begin = static_cast<OperatorId>(trace.operators.size());
  Forecast forecast(trace, nodes);
  for (std::size_t number = 0; number < nodes.size(); ++number) {
    forecast.add(number, reads(nodes[number]));
  }
}

}  // namespace reprise::engine_internal
