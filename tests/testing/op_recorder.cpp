// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/testing/op_recorder.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <memory>

namespace reprise::testing {
namespace {

// All recorders of a thread share one list; each knows where its part begins.
thread_local std::vector<std::string> recorded;
thread_local int recorders = 0;

std::unique_ptr<at::ObserverContext> on_operator(const at::RecordFunction& function) {
  // The callback travels to other threads, the list does not.
  if (recorders > 0 && function.operator_name().has_value()) {
    recorded.emplace_back(function.name());
  }
  return nullptr;
}

}  // namespace

OpRecorder::OpRecorder() : first_(recorded.size()) {
  if (recorders++ == 0) {
    callback_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(on_operator).scopes({at::RecordScope::FUNCTION}));
  }
}

OpRecorder::~OpRecorder() {
  if (--recorders == 0) {
    at::removeCallback(callback_);
    recorded.clear();
  }
}

std::vector<std::string> OpRecorder::names() const {
  return {recorded.begin() + static_cast<std::ptrdiff_t>(first_), recorded.end()};
}

std::size_t OpRecorder::count(std::string_view name) const {
  return static_cast<std::size_t>(
      std::count(recorded.begin() + static_cast<std::ptrdiff_t>(first_), recorded.end(), name));
}

void OpRecorder::clear() { first_ = recorded.size(); }

}  // namespace reprise::testing
