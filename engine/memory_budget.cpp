// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/memory_budget.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "reprise/engine/allocation/memory_source.h"
#include "reprise/engine/budget/backward_nodes.h"
#include "reprise/engine/budget/budget_state.h"
#include "reprise/engine/budget/budget_step.h"
#include "reprise/engine/budget/memory_guard.h"
#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/errors.h"
#include "reprise/engine/region/forward_region.h"
#include "reprise/hooks/seam/forwarding_engine.h"
#include "reprise/hooks/seam/hook_stack.h"

namespace reprise {

using engine_internal::BudgetAim;
using engine_internal::BudgetState;
using engine_internal::BudgetStep;
using engine_internal::ForwardRegion;

namespace {

c10::Device with_index(c10::Device device) {
  if (device.is_cpu()) {
    return c10::Device(c10::kCPU);
  }
  return device.has_index() ? device : c10::impl::VirtualGuardImpl(device.type()).getDevice();
}

}  // namespace

BudgetExceededError::BudgetExceededError(std::string message)
    : c10::OutOfMemoryError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)},
                            std::move(message)) {}

MemoryBudget::MemoryBudget(MemoryBudgetOptions options) {
  const bool has_peak = options.peak_bytes != 0;
  if (has_peak == options.max_overhead.has_value()) {
    throw std::invalid_argument(
        "[memory_budget] exactly one of peak_bytes (above 0) and max_overhead must be set");
  }
  if (options.peak_bytes < 0 || (options.max_overhead && !(*options.max_overhead >= 0))) {
    throw std::invalid_argument(c10::str("[memory_budget] peak_bytes is ", options.peak_bytes,
                                         ", max_overhead is ", options.max_overhead.value_or(0),
                                         "; neither may be negative"));
  }
  if (std::count(options.stores.begin(), options.stores.end(), nullptr) > 0) {
    throw std::invalid_argument("[memory_budget] a store is null");
  }
  const c10::Device device = with_index(options.device);
  if (device.is_cpu()) {
    install_cpu_memory_counter();
  }
  static_cast<void>(engine_internal::memory_source(device).bytes_in_use());  // or it throws
  engine_internal::observe_backwards();
  state_ = std::make_shared<BudgetState>(
      BudgetAim{.peak_bytes = options.peak_bytes, .max_overhead = options.max_overhead}, device,
      std::move(options.stores));
}

// What its steps wait for is no longer held to it; their backwards are.
MemoryBudget::~MemoryBudget() {
  if (state_ != nullptr) {
    for (const auto& step : engine_internal::MemoryGuard::of(state_->device()).steps()) {
      if (step->is_of(*state_)) {
        step->end_wait();
      }
    }
    state_->end_keeping();
  }
}

std::optional<BudgetedStep> MemoryBudget::last_step() const { return state_->last_step(); }

std::string MemoryBudget::report() const { return state_->report(); }

std::string MemoryBudget::explain(const std::string& op) const { return state_->explain(op); }

std::optional<planner::Trace> MemoryBudget::trace() const { return state_->trace(); }

BudgetScope::BudgetScope(MemoryBudget& budget) : exceptions_at_start_(std::uncaught_exceptions()) {
  // What a plan retains may change between forward and backward, and is then computed again.
  CheckpointOptions options{
      .name = "memory budget", .replay = ReplayMode::kTape, .allow_cache_entry_mutation = true};
  if (!ForwardRegion::prepare(options)) {
    return;
  }
  const hooks_internal::HookProvider* const around = hooks_internal::innermost_provider();
  if (around != nullptr && around->recomputes()) {
    throw CheckpointError(
        "[memory_budget] a BudgetScope begins inside a region or another BudgetScope. Begin it "
        "around them: the plan decides for their operators, too");
  }
  if (budget.state_->take_failure()) {
    // The tensors of that step would count against this one.
    hooks_internal::release_nodes_of_failed_backward();
  }
  step_ = std::make_shared<BudgetStep>(budget.state_);
  region_ = std::make_unique<ForwardRegion>(std::move(options), step_);
  step_->begin_forward(region_->frame());
}

BudgetScope::~BudgetScope() noexcept(false) { std::move(*this).close(); }

void BudgetScope::close() && {
  if (const auto region = std::exchange(region_, nullptr)) {
    const bool is_whole = std::uncaught_exceptions() == exceptions_at_start_;
    try {
      region->finish();
    } catch (...) {
      std::exchange(step_, nullptr)->end_forward(/*is_whole=*/false);
      throw;
    }
    std::exchange(step_, nullptr)->end_forward(is_whole);
  }
}

}  // namespace reprise
