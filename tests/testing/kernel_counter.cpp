// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/testing/kernel_counter.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace reprise::testing {
namespace {

// Below the key on which Reprise intercepts, and otherwise unused.
constexpr auto kKey = c10::DispatchKey::CustomRNGKeyId;

thread_local std::map<std::string, std::size_t>* counts_of_thread = nullptr;

void count_and_run(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                   torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard seen_once(kKey);
  if (counts_of_thread != nullptr) {
    ++(*counts_of_thread)[op.operator_name().name];
  }
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), stack);
}

TORCH_LIBRARY_IMPL(_, CustomRNGKeyId, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&count_and_run>());
}

}  // namespace

KernelCounter::KernelCounter() : included_(kKey) { counts_of_thread = &counts_; }

KernelCounter::~KernelCounter() { counts_of_thread = nullptr; }

std::size_t KernelCounter::count(const std::string& name) const {
  const auto found = counts_.find(name);
  return found == counts_.end() ? 0 : found->second;
}

}  // namespace reprise::testing
