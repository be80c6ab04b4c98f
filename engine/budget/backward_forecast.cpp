// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/backward_forecast.h"

#include <algorithm>
#include <atomic>
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
  enum class Result : std::uint8_t {
    kNew,
    kSame,        // the gradient that the node receives, or a view of as many elements
    kPart,        // a view of other sizes
    kReshaped,    // the same, or a copy if the elements do not lie in that order
    kTransposed,  // the same, with the elements in another order
    kFirst,       // the first one is the same, others are new
  };
  double temporaries = 1;  // at most, in gradients of its largest size
  Result result = Result::kNew;
  bool is_broadcasting = false;     // a smaller gradient is as large as the received one at first
  bool is_convolution = false;      // reorders each tensor that it reads or makes
  bool keeps_order = false;         // of the received gradient's elements
  bool returns_transposed = false;  // gradients
};

NodeMemory memory_of(std::string_view name) {
  constexpr NodeMemory kNoTemporaries{.temporaries = 0};
  constexpr NodeMemory kTwo{.temporaries = 2};
  using Result = NodeMemory::Result;
  constexpr NodeMemory kPointwise{.temporaries = 0, .keeps_order = true};
  constexpr NodeMemory kView{.temporaries = 0, .result = Result::kSame};
  constexpr NodeMemory kPart{.temporaries = 0, .result = Result::kPart};
  constexpr NodeMemory kReshaped{.temporaries = 0, .result = Result::kReshaped};
  constexpr NodeMemory kTransposed{.temporaries = 0, .result = Result::kTransposed};
  constexpr NodeMemory kScaled{.temporaries = 0, .is_broadcasting = true, .keeps_order = true};
  static const auto* const kKnown = new absl::flat_hash_map<std::string_view, NodeMemory>{
      {"AddBackward0", kView},
      {"AliasBackward0", kView},
      {"CloneBackward0", kView},
      {"ExpandBackward0", kView},
      {"PermuteBackward0", kTransposed},
      {"ReshapeAliasBackward0", kReshaped},
      {"SqueezeBackward0", kView},
      {"SqueezeBackward1", kView},
      {"SubBackward0", {.temporaries = 0, .result = Result::kFirst, .is_broadcasting = true}},
      {"TBackward0", kTransposed},
      {"TransposeBackward0", kTransposed},
      {"UnsafeViewBackward0", kReshaped},
      {"UnsqueezeBackward0", kView},
      {"ViewBackward0", kReshaped},
      {"AddmmBackward0", kNoTemporaries},
      {"BmmBackward0", kNoTemporaries},
      {"CatBackward0", kPart},
      {"EluBackward0", kPointwise},
      {"EmbeddingBackward0", kNoTemporaries},
      {"ExpBackward0", kPointwise},
      {"GatherBackward0", kNoTemporaries},
      {"GeluBackward0", kPointwise},
      {"GluBackward0", kNoTemporaries},
      {"HardswishBackward0", kPointwise},
      {"HardtanhBackward0", kPointwise},
      {"IndexSelectBackward0", kNoTemporaries},
      {"LeakyReluBackward0", kPointwise},
      {"LogBackward0", kPointwise},
      {"LogSoftmaxBackward0", kNoTemporaries},
      {"MaskedFillBackward0", kNoTemporaries},
      {"MaxPool2DWithIndicesBackward0", kNoTemporaries},
      {"MeanBackward0", kNoTemporaries},
      {"MeanBackward1", kNoTemporaries},
      {"MishBackward0", kPointwise},
      {"MmBackward0", kNoTemporaries},
      {"MulBackward0", kScaled},
      {"DivBackward1", kPointwise},
      {"LeakyReluBackward1", kPointwise},
      {"AvgPool2DBackward0", kNoTemporaries},
      {"BinaryCrossEntropyBackward0", kNoTemporaries},
      {"MseLossBackward0", kNoTemporaries},
      {"ConvolutionBackward0", {.temporaries = 0, .is_convolution = true}},
      {"MkldnnRnnLayerBackward0", {.temporaries = 3}},
      {"MulBackward1", kPointwise},
      {"NativeGroupNormBackward0", kNoTemporaries},
      {"NativeLayerNormBackward0", kNoTemporaries},
      {"NegBackward0", kPointwise},
      {"NllLossBackward0", kNoTemporaries},
      {"ReluBackward0", kPointwise},
      {"ScaledDotProductFlashAttentionForCpuBackward0",
       {.temporaries = 0, .returns_transposed = true}},
      {"SelectBackward0", kNoTemporaries},
      {"SigmoidBackward0", kPointwise},
      {"SiluBackward0", kPointwise},
      {"SliceBackward0", kNoTemporaries},
      {"SoftmaxBackward0", kNoTemporaries},
      {"SoftplusBackward0", kPointwise},
      {"SplitBackward0", kNoTemporaries},
      {"StackBackward0", kPart},
      {"SumBackward0", kPart},
      {"SumBackward1", kPart},
      {"TanhBackward0", kPointwise},
      {"UnbindBackward0", kNoTemporaries},
      {"WhereBackward0", kScaled},
      {"Atan2Backward0", {.temporaries = 5, .is_broadcasting = true}},
      {"AtanBackward0", kTwo},
      {"CosBackward0", kTwo},
      {"CumprodBackward0", {.temporaries = 3.25}},
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
      : trace_(trace),
        nodes_(nodes),
        first_(static_cast<OperatorId>(trace.operators.size())),
        received_(nodes.size()) {}

  void add(std::size_t number, std::vector<ValueId> reads) {
    const BackwardNode& node = nodes_[number];
    trace_.operators.push_back(
        {.name = node.name, .can_recompute = false, .reads = std::move(reads)});
    std::int64_t received_bytes = 0;
    for (const Received& gradient : received_[number]) {
      received_bytes = std::max(received_bytes, gradient.bytes);
      if (node.keeps_gradient) {
        trace_.values[gradient.value].released = kNone;
      } else {
        release(gradient.value, operator_of(number));
      }
    }
    const NodeMemory memory = memory_of(node.name);
    std::int64_t most_bytes = received_bytes;
    std::int64_t workspace_bytes = memory.is_convolution ? received_bytes : 0;
    for (const BackwardNode::Gradient& gradient : node.gradients) {
      const bool is_new = pass(number, gradient, memory);
      most_bytes = std::max(most_bytes, gradient.bytes);
      const bool is_larger_at_first = memory.is_broadcasting && gradient.bytes < received_bytes;
      workspace_bytes += is_new && is_larger_at_first ? received_bytes : 0;
      workspace_bytes += memory.is_convolution ? gradient.bytes : 0;
    }
    if (!node.gradients.empty()) {
      workspace_bytes +=
          static_cast<std::int64_t>(memory.temporaries * static_cast<double>(most_bytes));
    }
    trace_.operators.back().workspace_bytes += workspace_bytes;
  }

 private:
  // A gradient that a node receives.
  struct Received {
    ValueId value;
    std::int64_t bytes;  // of its elements: it may be a view of fewer
    std::size_t dims;
    int transpositions = 0;  // since its elements lay in order
  };

  OperatorId operator_of(std::size_t node) const { return first_ + static_cast<OperatorId>(node); }
  void release(ValueId value, OperatorId op) {
    OperatorId& released = trace_.values[value].released;
    released = released == kNone ? kNone : std::max(released, op);  // none: kept by a leaf
  }

  // Returns whether the gradient that a node returns is in the memory of the one that it receives.
  static bool is_view(const BackwardNode::Gradient& gradient, const NodeMemory& memory,
                      const Received& received) {
    using Result = NodeMemory::Result;
    const bool is_copy = memory.result == Result::kReshaped && received.transpositions != 0 &&
                         gradient.dims < received.dims;
    return memory.result == Result::kPart ||
           (memory.result != Result::kNew && gradient.bytes == received.bytes && !is_copy &&
            (memory.result != Result::kFirst || gradient.output == 0));
  }

  static int transpositions_of(const BackwardNode::Gradient& gradient, const NodeMemory& memory,
                               const Received* received, bool is_in_place) {
    if (memory.returns_transposed) {
      return -1;
    }
    const bool keeps_order = is_in_place || (memory.keeps_order && received != nullptr &&
                                             gradient.bytes == received->bytes);
    return keeps_order ? received->transpositions +
                             (memory.result == NodeMemory::Result::kTransposed ? 1 : 0)
                       : 0;
  }

  // A gradient that arrives where another one is waiting is added to that. Returns whether it takes
  // memory of its own.
  bool pass(std::size_t from, const BackwardNode::Gradient& gradient, const NodeMemory& memory) {
    planner::Operator& op = trace_.operators[operator_of(from)];
    const Received* const received =
        received_[from].size() == 1 ? &received_[from].front() : nullptr;
    const bool is_in_place = received != nullptr && is_view(gradient, memory, *received);
    if (!waiting_.emplace(gradient.node, gradient.input).second) {
      op.workspace_bytes += is_in_place ? 0 : gradient.bytes;
      return !is_in_place;
    }
    Received passed{.value = is_in_place ? received->value : kNone,
                    .bytes = gradient.bytes,
                    .dims = gradient.dims,
                    .transpositions = transpositions_of(gradient, memory, received, is_in_place)};
    if (is_in_place) {
      release(passed.value, operator_of(gradient.node));
    } else {
      passed.value = trace_.add_value({.bytes = gradient.bytes,
                                       .released = operator_of(gradient.node),
                                       .kind = planner::ValueKind::kGradient});
      op.results.push_back(passed.value);
    }
    received_[gradient.node].push_back(passed);
    return !is_in_place;
  }

  Trace& trace_;
  const std::vector<BackwardNode>& nodes_;
  const OperatorId first_;                                              // of the nodes
  std::vector<std::vector<Received>> received_;                         // by node
  absl::flat_hash_set<std::pair<std::size_t, std::uint32_t>> waiting_;  // by node and input
};

std::int64_t result_bytes(const Trace& trace, const planner::Operator& op) {
  std::int64_t bytes = 0;
  for (const ValueId result : op.results) {
    bytes += trace.values[result].bytes;
  }
  return bytes;
}

std::atomic<ForecastObserver> g_observer = nullptr;

}  // namespace

void set_forecast_observer(ForecastObserver observer) { g_observer = observer; }

ForecastObserver forecast_observer() { return g_observer; }

void append_backward(Trace& trace, const std::vector<BackwardNode>& nodes,
                     absl::FunctionRef<std::vector<ValueId>(const BackwardNode& node)> reads) {
  Forecast forecast(trace, nodes);
  for (std::size_t number = 0; number < nodes.size(); ++number) {
    forecast.add(number, reads(nodes[number]));
  }
}

void correct_forecast(Trace& trace, const std::vector<planner::Operator>& ended) {
  auto next = trace.operators.begin() + trace.backward_begin;
  for (const planner::Operator& node : ended) {
    const auto found =
        std::find_if(next, trace.operators.end(),
                     [&](const planner::Operator& foreseen) { return foreseen.name == node.name; });
    if (found != trace.operators.end()) {
      found->seconds = node.seconds;
      found->workspace_bytes =
          std::max<std::int64_t>(0, node.workspace_bytes - result_bytes(trace, *found));
      next = found + 1;
    }
  }
}

}  // namespace reprise::engine_internal
