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
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reprise/policies/checkpoint_policy.h"

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

// The answers to each of `calls` in a region that begins now.
inline std::vector<PolicyAnswer> ask_in_region(const PolicyHolder& policy,
                                               const std::vector<OperatorCall>& calls,
                                               const Place& place = {}) {
  std::shared_ptr<Policy> in_region = policy.get()->begin_region();
  if (in_region == nullptr) {
    in_region = policy.get();
  }
  std::vector<PolicyAnswer> answers;
  for (const OperatorCall& call : calls) {
    answers.push_back(in_region->decide(call.context(place)));
  }
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
