// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Calls of real operators, to ask policies about.
#ifndef REPRISE_TESTS_POLICIES_OPERATOR_CALL_H_
#define REPRISE_TESTS_POLICIES_OPERATOR_CALL_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reprise/planner/trace.h"
#include "reprise/policies/checkpoint_policy.h"
#include "reprise/policies/region_trace.h"

namespace reprise::testing {

// Where a call stands.
struct Place {
  std::vector<std::string> scopes = {};
  std::string name = {};
  std::string region = {};
  std::int64_t ordinal = 0;
};

// An operator with its arguments, all that its schema lists, and its results.
class OperatorCall {
 public:
  OperatorCall(const char* name, const char* overload, std::vector<c10::IValue> arguments)
      : op_(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload)),
        arguments_(std::move(arguments)) {
    torch::jit::Stack stack(arguments_.begin(), arguments_.end());
    op_.callBoxed(stack);
    outputs_.assign(stack.begin(), stack.end());
  }

  // One that has not run, for policies that look at the operator or its arguments only.
  static OperatorCall without_running(const char* name, const char* overload,
                                      std::vector<c10::IValue> arguments = {}) {
    return OperatorCall(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload),
                        std::move(arguments));
  }

  PolicyContext context(const Place& place = kNowhere) const {
    return PolicyContext({.op = &op_,
                          .arguments = arguments_,
                          .outputs = outputs_,
                          .scopes = place.scopes,
                          .name = place.name,
                          .region = place.region,
                          .ordinal = place.ordinal});
  }

  const std::vector<c10::IValue>& arguments() const { return arguments_; }
  const std::vector<c10::IValue>& outputs() const { return outputs_; }

 private:
  OperatorCall(c10::OperatorHandle op, std::vector<c10::IValue> arguments)
      : op_(op), arguments_(std::move(arguments)) {}

  inline static const Place kNowhere;

  c10::OperatorHandle op_;
  std::vector<c10::IValue> arguments_;
  std::vector<c10::IValue> outputs_;
};

inline PolicyAnswer ask(const PolicyHolder& policy, const OperatorCall& call,
                        const Place& place = {}) {
  return policy.get()->decide(call.context(place));
}

// The trace of a region that has run these operators. Autograd saves what each makes. Operators
// that take a result of an earlier one read that, or write to it.
inline RegionTrace trace_of(const std::vector<OperatorCall>& calls) {
  const auto memory = [](const c10::IValue& value) -> const void* {
    return value.isTensor() ? value.toTensor().storage().unsafeGetStorageImpl() : nullptr;
  };
  RegionTrace region;
  planner::Operator backward;
  std::map<const void*, planner::ValueId> values;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const planner::ValueId value =
        region.trace.add_value({.released = static_cast<planner::OperatorId>(calls.size()) - 1});
    region.trace.operators.push_back({.results = {value}});
    region.ordinals.push_back(static_cast<std::int64_t>(i));
    region.may_save.push_back(true);
    for (const c10::IValue& argument : calls[i].arguments()) {
      const auto known = values.find(memory(argument));
      if (known == values.end()) {
        continue;
      }
      region.trace.operators.back().reads.push_back(known->second);
      if (memory(calls[i].outputs().at(0)) == known->first) {
        region.may_save[static_cast<std::size_t>(known->second)] = false;
        region.trace.values.back().overwrites = known->second;
      }
    }
    values[memory(calls[i].outputs().at(0))] = value;
    backward.reads.push_back(value);
  }
  region.trace.backward_begin = static_cast<planner::OperatorId>(calls.size());
  region.trace.operators.push_back(std::move(backward));
  return region;
}

// The answers to each of `calls` in a region that begins now, and ends then.
inline std::vector<PolicyAnswer> ask_in_region(const PolicyHolder& policy,
                                               const std::vector<OperatorCall>& calls,
                                               Place place = {}) {
  std::shared_ptr<Policy> in_region = policy.get()->begin_region();
  if (in_region == nullptr) {
    in_region = policy.get();
  }
  std::vector<PolicyAnswer> answers;
  for (const OperatorCall& call : calls) {
    answers.push_back(in_region->decide(call.context(place)));
    ++place.ordinal;
  }
  in_region->end_region([&] { return trace_of(calls); });
  return answers;
}

// Returns the message of the E that `f` threw, or a line that it did not.
template <class E, class F>
std::string message_of(F&& f) {
  try {
    std::forward<F>(f)();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

inline OperatorCall mm_call() {
  return OperatorCall("aten::mm", "", {at::ones({2, 3}), at::ones({3, 4})});
}
inline OperatorCall relu_call() { return OperatorCall("aten::relu", "", {at::ones({2, 3})}); }

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_POLICIES_OPERATOR_CALL_H_
