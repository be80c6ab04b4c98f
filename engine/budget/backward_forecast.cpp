// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/backward_forecast.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"

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
  constexpr NodeMemory kNone{.temporaries = 0};
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
      {"AddmmBackward0", kNone},
      {"BmmBackward0", kNone},
      {"CatBackward0", kNone},
      {"EluBackward0", kNone},
      {"EmbeddingBackward0", kNone},
      {"ExpBackward0", kNone},
      {"GatherBackward0", kNone},
      {"GeluBackward0", kNone},
      {"GluBackward0", kNone},
      {"HardswishBackward0", kNone},
      {"HardtanhBackward0", kNone},
      {"IndexSelectBackward0", kNone},
      {"LeakyReluBackward0", kNone},
      {"LogBackward0", kNone},
      {"LogSoftmaxBackward0", kNone},
      {"MaskedFillBackward0", kNone},
      {"MaxPool2DWithIndicesBackward0", kNone},
      {"MeanBackward0", kNone},
      {"MeanBackward1", kNone},
      {"MishBackward0", kNone},
      {"MmBackward0", kNone},
      {"MulBackward0", {.temporaries = 0, .is_broadcasting = true}},
      {"MulBackward1", kNone},
      {"NativeGroupNormBackward0", kNone},
      {"NativeLayerNormBackward0", kNone},
      {"NegBackward0", kNone},
      {"NllLossBackward0", kNone},
      {"ReluBackward0", kNone},
      {"ScaledDotProductFlashAttentionForCpuBackward0", kNone},
      {"SelectBackward0", kNone},
      {"SigmoidBackward0", kNone},
      {"SiluBackward0", kNone},
      {"SliceBackward0", kNone},
      {"SoftmaxBackward0", kNone},
      {"SoftplusBackward0", kNone},
      {"SplitBackward0", kNone},
      {"StackBackward0", kNone},
      {"SumBackward0", kNone},
      {"SumBackward1", kNone},
      {"TanhBackward0", kNone},
      {"UnbindBackward0", kNone},
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
  return found == kKnown->end() ? NodeMemory() : found->second;
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
    const auto [known, is_new] = waiting_.try_emplace({gradient.node, gradient.input}, passed_on);
    if (is_new && passed_on != kNone) {
      received_[gradient.node].push_back(passed_on);
      release(passed_on, operator_of(gradient.node));
      return;
    }
    if (!is_new) {
      trace_.operators[operator_of(from)].workspace_bytes +=
          passed_on == kNone ? gradient.bytes : 0;
    } else {
      known->second = trace_.add_value({.bytes = gradient.bytes,
                                        .released = operator_of(gradient.node),
                                        .kind = planner::ValueKind::kGradient});
      trace_.operators[operator_of(from)].results.push_back(known->second);
      received_[gradient.node].push_back(known->second);
    }
  }

  Trace& trace_;
  const std::vector<BackwardNode>& nodes_;
  std::vector<std::vector<ValueId>> received_;  // by node
  absl::flat_hash_map<std::pair<std::size_t, std::uint32_t>, ValueId> waiting_;
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
